"""Commands that are typed not quite as they are meant: one line says what to type, and nothing is
done."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper.cli.common.tables import one_line
from scraper.cli.data.export import form_of
from scraper.errors import ConfigError
from scraper.views.rows import Table, write_csv
from tests.acceptance.commands import Commands
from tests.support.making import a_site, open_crawl
from tests.support.servers.forked import ROOT

EXAMPLES = {"SCRAPER_SITES": str(ROOT / "sites")}


@pytest.fixture
def crawl_id(engine: sa.Engine) -> int:
    return open_crawl(engine, a_site("shop"))[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("crwal", "shop"), "No such command 'crwal'; did you mean 'crawl'?"),
        (("crawl", "shpo"), "did you mean 'shop'?"),
        (("crawl", "sites/shop.yaml"), "type `scraper crawl shop`"),
        (("crawl", "https://shop.example/all"), "write a definition"),
        (("status", "shpo"), "did you mean 'shop'?"),
        (("products", "shpo"), "did you mean 'shop'?"),
        (("products", "shop", "--limit", "-3"), "-3 is not in the range"),
        (("sites", "check", "bookz"), "did you mean 'books'?"),
        (("stop",), "--all"),
        (("stop", "shpo"), "did you mean 'shop'?"),
        (("stop", "shop", "--all"), "say which"),
    ],
)
def test_what_is_nearly_right(
    words: tuple[str, ...], says: str, run: Commands, crawl_id: int, engine: sa.Engine
) -> None:
    done = run.scraper(*words, code=2, env=EXAMPLES)
    assert says in done.stderr and done.stdout == ""
    with engine.connect() as connection:
        running = connection.execute(
            sa.text("SELECT count(*) FROM crawls WHERE status = 'running'")
        )
        assert running.scalar() == 1


def test_a_crawl_is_stopped_by_its_site_or_with_all_others(run: Commands, crawl_id: int) -> None:
    assert run.json("stop", "shop") == [crawl_id]
    assert "no crawl of shop is running" in run.scraper("stop", "shop", code=2).stderr
    assert run.json("stop", "--all") == []


def test_a_definition_is_checked_by_its_name(run: Commands) -> None:
    done = run.scraper("sites", "check", "books", env=EXAMPLES)
    estimate, checked = done.stdout.splitlines()
    assert estimate.startswith("books: no complete crawl yet; ") and " at 4/s" in estimate
    assert checked == "1 definition checked, no errors"
    assert run.scraper("sites", "check", "books", "--json", env=EXAMPLES).stdout == "[]\n"


def test_without_a_folder_of_definitions(run: Commands, tmp_path: Path) -> None:
    done = run.scraper("sites", "list", code=2, env={"SCRAPER_SITES": str(tmp_path / "none")})
    assert "scraper init" in done.stderr


def test_a_newer_database_asks_for_a_newer_program(run: Commands, engine: sa.Engine) -> None:
    with engine.begin() as connection:
        was = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        done = run.scraper("status", code=3)
        assert "newer than this program" in done.stderr and "migrate`" not in done.stderr
    finally:
        with engine.begin() as connection:
            query = sa.text("UPDATE alembic_version SET version_num = :was")
            connection.execute(query, {"was": was})


def test_names_of_sites_are_completed(run: Commands) -> None:
    words = {"COMP_WORDS": "scraper crawl b", "COMP_CWORD": "2"}
    env = {"_SCRAPER_COMPLETE": "bash_complete", **words, **EXAMPLES}
    assert run.scraper(env=env).stdout.split() == ["plain,books"]


def test_the_ending_of_a_file_says_its_form() -> None:
    names = ("x.csv", "x.jsonl", "s3://b/x.PARQUET", "x.xlsx", "x", None)
    forms = ["csv", "jsonl", "parquet", "xlsx", "jsonl", "jsonl"]
    assert [form_of(name) for name in names] == forms
    with pytest.raises(ConfigError, match="unknown ending .xls "):
        form_of("x.xls")


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t", " =", "\n\t@", "＝", "＋1", "－", "＠", "\u3000="]
)
def test_a_formula_is_defused(start: str, tmp_path: Path) -> None:
    text = f"{start}cmd"
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as out:
        write_csv(Table(["a"], iter([{"a": text}])), out)
    assert f"'{text}" in path.read_text()


def test_a_terminal_is_not_steered(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as out:
        write_csv(Table(["a"], iter([{"a": "x\x1b]0;y\x07\u202e"}])), out, one_line)
    assert path.read_text().isprintable() or "\x1b" not in path.read_text()
    assert "\u202e" not in path.read_text() and "\x07" not in path.read_text()
