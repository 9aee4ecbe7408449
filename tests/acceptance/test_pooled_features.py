"""Features through PgBouncer in transaction mode with two connections to PostgreSQL: results are those
of the same work without it, and nothing stays in a session."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pyarrow.parquet as parquet
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper import settings as settings_module
from scraper.cli.main import main
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.integration.plugins.flower.openapi.filled import fill_database, write_alert_files
from tests.support.making import rows
from tests.support.servers import pgbouncer
from tests.support.servers.flower import Flower
from tests.support.servers.receivers import receivers

SIZE = 2
POOL = {"default_pool_size": SIZE, "admin_users": "scraper"}
MANY = 10_000
OLDER = "0026"
MORE_PRODUCTS = """
INSERT INTO products (external_id, site_id, page_id, crawl_id, url, data, content_hash, version)
SELECT 'x' || n, site_id, page_id, crawl_id, url, data || jsonb_build_object('n', n), content_hash, 1
  FROM generate_series(1, :count) n,
       (SELECT * FROM products WHERE site_id = (SELECT id FROM sites WHERE name = 'shop') LIMIT 1) p
"""
# A crawl whose last bucket is half a minute old changes its state, from failing to waiting.
LASTS = "UPDATE throughput SET at = at + interval '1 hour' WHERE worker = 'w'"
READERS = (
    "status", "status shop", "report 1", "sites list", "host list", "host list shop.example",
    "products shop --limit 50", "products shop --where price>12", "history shop 3", "why shop 3",
    "articles search kettle", "articles show 1", "links", "links review", "alerts", "plan planned",
    "archive list", "archive verify", "consumers", "changes --since 0", "dead list --summary",
    "dead list other", "proxies", "login list", "accept shop --dry-run", "reject shop --dry-run",
    "reextract shop --diff", "migrate --dry-run", "dedup show shop", "sites delete shop --dry-run",
)  # fmt: skip


@pytest.fixture
def pooled_url(servers: Settings, own_database: str) -> Iterator[str]:
    with pgbouncer.open_pooler(servers, own_database, **POOL) as url:
        yield url


@pytest.fixture
def filled(
    own_database: str,
    environment: Settings,
    engine: sa.Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[sa.Engine]:
    """A database in which each feature has rows, with a site of many products."""
    with receivers(tmp_path) as (webhook, _, _):
        for name, value in write_alert_files(tmp_path, webhook.address).items():
            monkeypatch.setenv(name, value)
        settings_module.load.cache_clear()
        fill_database(engine, settings_module.load(), webhook)
        with engine.begin() as connection:
            connection.execute(sa.text(LASTS))
        yield engine


def type_command(line: str, url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The command's exit code and output, with that database. The state of all sites has ages."""
    monkeypatch.setenv("DATABASE_URL", url)
    settings_module.load.cache_clear()
    opened: list[psycopg.Connection] = []

    def keep(connection: psycopg.Connection, _: object) -> None:
        opened.append(connection)

    sa.event.listen(sa.Pool, "connect", keep)
    result = CliRunner().invoke(main, line.split())
    sa.event.remove(sa.Pool, "connect", keep)
    for connection in opened:
        connection.close()
    has_ages = line.split()[:2] in (["status"], ["status", "--json"])
    return result.exit_code, re.sub(r"\d+", "9", result.output) if has_ages else result.output


def test_commands_read_the_same_through_a_pooler(
    filled: sa.Engine, own_database: str, pooled_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    differences = {}
    for line in READERS:
        for words in (line, f"{line} --json"):
            direct, pooled = (
                type_command(words, url, monkeypatch) for url in (own_database, pooled_url)
            )
            if direct != pooled:
                differences[words] = direct, pooled
    assert differences == {}
    pgbouncer.assert_clean(pooled_url, SIZE)


def test_exports_are_the_same_through_a_pooler(
    filled: sa.Engine,
    own_database: str,
    pooled_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with filled.begin() as connection:
        connection.execute(sa.text(MORE_PRODUCTS), {"count": MANY})
    for line in (
        "export shop -o {}.csv", "export shop -o {}.jsonl", "export shop -o {}.parquet",
        "export --all -o {}.xlsx", "export --all --since 1h -o {}.csv",
        "articles search -o {}.csv",
    ):  # fmt: skip
        written = []
        for name, url in (("direct", own_database), ("pooled", pooled_url)):
            words = line.format(tmp_path / name)
            code, output = type_command(words, url, monkeypatch)
            assert code == 0, output
            written.append(_read(Path(words.split()[-1])))
        assert written[0] == written[1], line
    assert len((tmp_path / "pooled.jsonl").read_text().splitlines()) > MANY
    pgbouncer.assert_clean(pooled_url, SIZE)


def _read(path: Path) -> object:
    """What a file holds. A workbook has the time at which it was written."""
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix != ".xlsx":
        return path.read_bytes()
    with zipfile.ZipFile(path) as book:
        return {
            name: book.read(name) for name in book.namelist() if name.startswith("xl/worksheets/")
        }


PAGES = (
    "/crawls", "/api/crawls", "/api/crawls?show=crawls", "/api/crawls?search=shop",
    "/api/crawls/{crawl}", "/api/sites/shop", "/api/sites/alpha", "/api/sites/planned",
    "/api/products?site=shop", "/api/products?site=shop&id=3", "/api/products?site=alpha&id=0",
    "/api/changes", "/crawls/api/search?q=kettle", "/crawls/api/drops", "/crawls/api/plans",
    "/crawls/api/articles?search=kettle", "/crawls/api/articles?show=review",
    "/crawls/api/alerts", "/crawls/api/alerts?preview=1", "/crawls/api/setup",
)  # fmt: skip

# What the tab computes with the clock, and Flower's own page.
CHANGING = re.compile(
    r'"(now|since|until|\w*_per_s|left\w*|\w*_s)":("[^"]*"|[\d.]+|null),?|"spark":[^]]*|value="[\w|:]+"'
)


def test_the_tab_reads_the_same_through_a_pooler(
    filled: sa.Engine,
    own_database: str,
    pooled_url: str,
    run: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All pages at once, several times, as more people than the pool has sessions."""
    crawl = rows(filled, "SELECT max(id) FROM crawls WHERE suspect")[0][0]
    paths = [path.format(crawl=crawl) for path in PAGES]
    answers = []
    for url in (own_database, pooled_url):
        run.env["DATABASE_URL"] = url
        flower = Flower(run, settings_module.load())
        with ThreadPoolExecutor(12) as pool:
            texts = list(pool.map(partial(_read_page, flower), paths * 3))
        answers.append(texts)
        flower.stop()
    assert "Traceback" not in run.logs(whole=True)
    for path, direct, pooled in zip(paths * 3, *answers, strict=True):
        assert pooled == direct, path
    pgbouncer.assert_clean(pooled_url, SIZE)


def _read_page(flower: Flower, path: str) -> str:
    """A page, without its ages and its token."""
    answer = flower.get(path, timeout=120)
    assert answer.status_code == 200, (path, answer.text)
    return CHANGING.sub("", answer.text)


COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default
  FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"
REVISIONS = "SELECT (SELECT min(version_num) FROM alembic_version)"


def test_an_older_database_is_migrated_through_a_pooler(
    filled: sa.Engine, own_database: str, pooled_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [rows(filled, query) for query in (COLUMNS, INDEXES, REVISIONS)]
    products = rows(filled, "SELECT id, data, version FROM products ORDER BY id")
    code, output = type_command(f"migrate --down {OLDER}", pooled_url, monkeypatch)
    assert code == 0, output
    assert rows(filled, REVISIONS) == [(OLDER,)]
    shown = [
        type_command("migrate --dry-run", url, monkeypatch) for url in (own_database, pooled_url)
    ]
    assert shown[0] == shown[1] and shown[0][0] == 0, shown
    code, output = type_command("migrate", pooled_url, monkeypatch)
    assert code == 0, output
    assert [rows(filled, query) for query in (COLUMNS, INDEXES, REVISIONS)] == before
    assert rows(filled, "SELECT id, data, version FROM products ORDER BY id") == products
    pgbouncer.assert_clean(pooled_url, SIZE)
