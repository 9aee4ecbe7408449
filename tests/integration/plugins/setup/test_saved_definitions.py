"""Definitions that are saved, changed and restored in the browser: never half, never over another's
change, and each with its author in the log."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.setup import files, tab
from scraper.plugins.setup.files import Author, hash_text
from scraper.settings import Settings
from scraper.sites.loader import load_file
from tests.support.making import rows

NOBODY = 65534
TEXT = """\
# A comment that stays.
name: shop
start: https://shop.example/
rate: 4/s
listing: {products: a}
product: {fields: {title: {css: h1, required: true}}}
"""
LOG = "SELECT changed_by, site, action, before IS NULL, after IS NULL FROM definition_changes ORDER BY id"

pytestmark = pytest.mark.usefixtures("environment")


def save(
    engine: sa.Engine, text: str = TEXT, *, name: str = "shop", by: str = "ann", **more: Any
) -> Any:
    return tab.save_draft(engine, {"name": name, "text": text, **more}, by)


def read_site(engine: sa.Engine, name: str) -> dict[str, Any]:
    with engine.connect() as connection:
        return tab.read(connection, {"site": name})


def test_a_definition_is_saved_with_the_forms_values(
    engine: sa.Engine, environment: Settings
) -> None:
    told = save(engine, name="garden", schedule="0 6 * * *", tags="wood, tools", rate="2/s")
    path = environment.sites_dir / "garden.yaml"
    assert told["saved"] == "garden" and str(path) in told["message"]
    site = load_file(path)
    assert (site.name, site.schedule, site.tags, site.rate) == (
        "garden",
        "0 6 * * *",
        ("wood", "tools"),
        "2/s",
    )
    assert "# A comment that stays." in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert [file.name for file in environment.sites_dir.iterdir()] == ["garden.yaml"]
    assert rows(engine, LOG) == [("ann", "garden", "added", True, False)]


def test_a_site_keeps_its_name_in_a_file_of_another(
    engine: sa.Engine, environment: Settings
) -> None:
    folder = environment.sites_dir
    for file, name in (("shop", "my-shop"), ("other", "shop")):
        (folder / f"{file}.yaml").write_text(TEXT.replace("name: shop", f"name: {name}"))
    with engine.connect() as connection:
        assert tab.read(connection, {})["sites"] == ["my-shop", "shop"]
    assert read_site(engine, "shop")["file"] == str(folder / "other.yaml")
    site = read_site(engine, "my-shop")
    save(engine, site["text"], name="my-shop", seen=site["seen"], rate="2/s")
    changed = load_file(folder / "shop.yaml")
    assert (changed.name, changed.rate) == ("my-shop", "2/s")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_sites_check_reports_is_not_saved(engine: sa.Engine, environment: Settings) -> None:
    for text, line, reason in (
        (TEXT + "shedule: x\n", 7, "schedule"),
        (TEXT.replace("4/s", "fast"), 4, "rate"),
        (TEXT.replace("rate: 4/s", "revisit: 7d\nschedule: '0 6 * * *'"), 4, "revisit"),
        (TEXT.replace("start: https", "start: ["), 3, ""),
        ("", 1, "empty"),
        ("- a", 1, "mapping"),
        ("a: " * 50, 1, ""),
        ("[" * 90, 1, ""),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", 1, ""),
        (TEXT + "\x00", 1, ""),
        (TEXT + "# \ud800", 1, "characters"),
        (TEXT + "product: {function: 'os:system'}\n", 7, ""),
    ):
        told = tab.check_draft(engine, {"name": "shop", "text": text}, "ann")
        assert told["problems"], text[:80]
        assert line in [problem["line"] for problem in told["problems"]] and reason in str(
            told["problems"]
        )
        assert "scraper-check" not in str(told["problems"])
        with pytest.raises(ConfigError, match="not saved"):
            save(engine, text)
    assert list(environment.sites_dir.iterdir()) == [] and rows(engine, LOG) == []


@pytest.mark.parametrize(
    "name",
    ["../x", "..", "/etc/x", "x/y", "x\\y", ".x", "-x", "X", "", "a" * 64, "x.yaml", "x\n", "ä", "%2e%2e", "x\x00"],
)  # fmt: skip
def test_a_name_leads_to_no_other_folder(
    engine: sa.Engine, environment: Settings, name: str
) -> None:
    before = sorted(environment.sites_dir.parent.rglob("*"))
    with pytest.raises(ConfigError, match="is not a name"):
        save(engine, name=name if name != "x\n" else "x\ny")
    with engine.connect() as connection, pytest.raises(ConfigError):
        tab.read(connection, {"site": name})
    assert sorted(environment.sites_dir.parent.rglob("*")) == before


def test_a_file_is_replaced_only_by_who_has_seen_it(
    engine: sa.Engine, environment: Settings
) -> None:
    save(engine)
    with pytest.raises(ConfigError, match="there already"):
        save(engine, TEXT.replace("4/s", "1/s"), by="bob")
    told = tab.check_draft(engine, {"name": "shop", "text": TEXT.replace("4/s", "1/s")}, "bob")
    assert (
        told["there"] == hash_text(TEXT)
        and "-rate: 4/s" in told["diff"]
        and "+rate: 1/s" in told["diff"]
    )
    save(engine, TEXT.replace("4/s", "1/s"), by="bob", seen=told["there"])
    with pytest.raises(ConfigError, match="has changed since"):
        save(engine, TEXT.replace("4/s", "3/s"), seen=told["there"])
    path = environment.sites_dir / "shop.yaml"
    assert "rate: 1/s" in path.read_text()
    path.write_text(TEXT)
    shown = read_site(engine, "shop")
    assert shown["text"] == TEXT and [change["by"] for change in shown["changes"]] == ["bob", "ann"]
    # Another file that defines the same site is named.
    told = tab.check_draft(engine, {"name": "other", "text": TEXT}, "ann")
    assert told["keys"]["name"] == "other" and told["problems"] == []
    (environment.sites_dir / "second.yml").write_text("name: third\n")
    told = tab.check_draft(engine, {"name": "third", "text": TEXT}, "ann")
    assert told["file"].endswith("second.yml") and told["there"]


def test_two_who_save_at_once_make_one_file(engine: sa.Engine, environment: Settings) -> None:
    path = environment.sites_dir / "shop.yaml"
    for round_ in range(5):
        seen = hash_text(files.read_file(path))
        texts = [f"{TEXT}# {round_} {by}\n" for by in "abcdef"]

        def attempt(text: str, seen: str = seen) -> bool:
            try:
                files.save_file(engine, path, text, seen, Author("ann", "shop", "changed"))
            except ConfigError:
                return False
            return True

        with ThreadPoolExecutor(6) as threads:
            saved = list(threads.map(attempt, texts))
        assert sum(saved) == 1 and path.read_text() == texts[saved.index(True)]
    assert len(rows(engine, LOG)) == 5 and [file.name for file in path.parent.iterdir()] == [
        "shop.yaml"
    ]


def test_changes_are_undone_in_turn(engine: sa.Engine, environment: Settings) -> None:
    path = environment.sites_dir / "shop.yaml"
    save(engine)
    save(engine, TEXT.replace("4/s", "1/s"), by="bob", seen=hash_text(TEXT))
    (second, first) = read_site(engine, "shop")["changes"]
    with engine.connect() as connection:
        assert "+rate: 1/s" in tab.read(connection, {"change": str(second["id"])})["change"]["diff"]
    with pytest.raises(ConfigError, match="has changed since"):
        tab.undo_change(engine, {"id": first["id"]}, "ann")
    assert "as before" in str(tab.undo_change(engine, {"id": second["id"]}, "ann"))
    assert path.read_text() == TEXT
    assert "removed" in str(tab.undo_change(engine, {"id": first["id"]}, "ann"))
    assert not path.exists()
    newest = read_site(engine, "shop")["changes"][0]
    tab.undo_change(engine, {"id": newest["id"]}, "ann")
    assert path.read_text() == TEXT
    path.write_text("name: shop\n")
    with pytest.raises(ConfigError, match="has changed since"):
        tab.undo_change(engine, {"id": newest["id"] + 1}, "ann")
    with pytest.raises(NotFoundError):
        tab.undo_change(engine, {"id": 999}, "ann")
    assert [row[2] for row in rows(engine, LOG)] == [
        "added",
        "changed",
        "undone",
        "undone",
        "undone",
    ]


def test_a_link_to_a_file_elsewhere_stays_a_link(
    engine: sa.Engine, environment: Settings, tmp_path: Path
) -> None:
    real, link = tmp_path / "real.yaml", environment.sites_dir / "shop.yaml"
    real.write_text(TEXT)
    real.chmod(0o640)
    link.symlink_to(real)
    save(engine, TEXT.replace("4/s", "1/s"), seen=hash_text(TEXT))
    assert link.is_symlink() and "1/s" in real.read_text() and real.stat().st_mode & 0o777 == 0o640


@pytest.fixture
def read_only(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of definitions in which this process may not write."""
    # Another user may open neither the server's socket nor Python's modules.
    save(engine, name="first")
    folder = Path(tempfile.mkdtemp(prefix="scraper-sites-"))
    (folder / "old.yaml").write_text(TEXT.replace("shop\n", "old\n"))
    folder.chmod(0o555)
    monkeypatch.setenv("SCRAPER_SITES", str(folder))
    settings_module.load.cache_clear()
    read_site(engine, "old")
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(before)
    shutil.rmtree(folder)


def test_a_read_only_folder_gives_the_file_to_commit(engine: sa.Engine, read_only: Path) -> None:
    for name, more in (
        ("shop", {}),
        ("old", {"seen": hash_text((read_only / "old.yaml").read_text())}),
    ):
        told = save(engine, name=name, queue="browser", **more)
        assert "saved" not in told and told["file"] == str(read_only / f"{name}.yaml")
        assert "queue: browser" in told["text"] and "Commit this file" in told["message"]
    assert not read_site(engine, "old")["writable"]
    assert [file.name for file in read_only.iterdir()] == ["old.yaml"] and [
        row[1] for row in rows(engine, LOG)
    ] == ["first"]


def test_a_guarded_tab_saves_no_way_into_the_network(
    engine: sa.Engine, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_SETUP_PRIVATE", "0")
    settings_module.load.cache_clear()
    with pytest.raises(ConfigError, match="allow_private"):
        save(engine, TEXT + "allow_private: true\n")
    save(engine)
    assert len(list(environment.sites_dir.iterdir())) == 1


@pytest.mark.parametrize(
    "text", ["[" * 3000, "[" * 101 + "]" * 101, "{[" * 51, "a: {" * 2000, TEXT + "#\n" * 3000]
)
def test_a_text_that_takes_long_to_check_is_refused(
    engine: sa.Engine, environment: Settings, text: str
) -> None:
    for ask in (
        lambda: tab.check_draft(engine, {"name": "shop", "text": text}, "ann"),
        lambda: save(engine, text),
    ):
        with pytest.raises(ConfigError, match="one file per shop|in each other"):
            ask()
    assert list(environment.sites_dir.iterdir()) == [] and rows(engine, LOG) == []
