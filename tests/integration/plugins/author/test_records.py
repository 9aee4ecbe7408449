"""`scraper sites record` and `scraper sites test` as they are typed: pages kept next to a definition,
read again offline, and every field that differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scraper import settings
from scraper.cli.main import main
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.slow

CARDS = "".join(f'<a class="p" href="/p/{n}">Thing {n}</a>' for n in range(1, 41))
PAGES = {
    "/": CARDS + '<a class="next" href="/?page=2">next</a><p>hunter2-hunter2</p>',
    "/?page=2": '<a class="p" href="/p/41">Thing 41</a>',
    **{
        f"/p/{n}": f"<h1>Thing {n}</h1><b class=price>£{n}.50</b><i class=now>£{n + 1}</i>"
        "<p>signed in as hunter2-hunter2</p>"
        for n in range(1, 42)
    },
}
DEFINITION = """
start: {url}/
rate: 500/s
allow_private: true
headers: {{X-Api-Key: hunter2-hunter2}}
listing: {{products: a.p, next: a.next}}
product:
  id: {{url: '/p/(\\d+)'}}
  fields:
    title: {{css: h1, required: true}}
    price: {{css: .price, type: price}}
"""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StaticShop]:
    for name in ("DATABASE_URL", "REDIS_URL", "SCRAPER_HOME", "SCRAPER_SITES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    settings.load.cache_clear()
    with StaticShop(PAGES) as server:
        Path("sites").mkdir()
        Path("sites/things.yaml").write_text(DEFINITION.format(url=server.url))
        yield server
    settings.load.cache_clear()


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["sites", *words])
    assert result.exit_code == code, result.output
    return result


def change(before: str, after: str, name: str = "things") -> None:
    path = Path(f"sites/{name}.yaml")
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_what_a_change_of_the_definition_changes_is_shown_field_by_field(shop: StaticShop) -> None:
    run("record", "things", "--pages", "12")
    asked = len(shop.asked)
    index = json.loads(Path("sites/things.pages/pages.json").read_text())
    assert [entry["kind"] for entry in index] == ["listing"] * 2 + ["product"] * 10
    assert "1 sites, 12 pages: 0 differences" in run("test").stdout
    change(".price", ".now")
    shown = json.loads(run("test", "things", "--json", code=1).stdout)
    assert len(shown["differences"]) == 10
    assert shown["differences"][0] == {
        "site": "things",
        "page": f"{shop.url}/p/1",
        "field": "price",
        "old": 1.5,
        "new": 2,
    }
    assert "things\tprice\t" in run("test", code=1).stdout
    assert "10 differences, taken as expected" in run("test", "--update").stdout
    assert "0 differences" in run("test").stdout
    assert len(shop.asked) == asked


def test_a_lost_page_id_and_link_are_differences(shop: StaticShop) -> None:
    run("record", "things", "--pages", "6")
    change("css: h1", "css: h2")
    rows = json.loads(run("test", "--json", code=1).stdout)["differences"]
    assert {(row["field"], row["new"]) for row in rows} == {("id", None)}
    change("css: h2", "css: h1")
    change("a.p,", "a.q,")
    rows = json.loads(run("test", "--json", code=1).stdout)["differences"]
    assert [len(row["old"]) for row in rows if row["field"] == "products"] == [40]


def test_no_secret_is_recorded(shop: StaticShop) -> None:
    import gzip

    run("record", "things", "--pages", "4")
    kept = b"".join(gzip.decompress(file.read_bytes()) for file in Path("sites").rglob("*.gz"))
    index = Path("sites/things.pages/pages.json").read_bytes()
    assert b"signed in as ***" in kept
    assert b"hunter2" not in kept + index


def test_recorded_again_the_same_pages_are_the_same_bytes(shop: StaticShop) -> None:
    def files() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in Path("sites/things.pages").iterdir()}

    run("record", "things", "--pages", "10")
    before = files()
    run("record", "things", "--pages", "10")
    assert files() == before
    run("record", "things", "--pages", "4")
    assert len(files()) == 5


def test_what_cannot_be_tested_says_what_to_type(shop: StaticShop) -> None:
    assert "`scraper sites record things`" in run("test", "things", code=1).output
    assert "`scraper sites record SITE`" in run("test", code=2).output
    run("record", "things", "--pages", "4")
    Path("sites/things.pages/002.gz").write_bytes(b"torn")
    assert "sites/things.pages: cannot be read" in run("test", code=1).output
    Path("sites/things.pages/pages.json").write_text('[{"file": "../things.yaml"}]')
    assert "cannot be read" in run("test", code=1).output


def test_pages_that_would_not_be_stored_are_not_recorded(shop: StaticShop) -> None:
    change("css: h1", "css: h2")
    assert "scraper try things" in run("record", "things", code=1).output
    assert not Path("sites/things.pages").exists()


def test_many_sites_are_read_by_several_processes(shop: StaticShop) -> None:
    run("record", "things", "--pages", "4")
    for number in range(6):
        Path(f"sites/s{number}.yaml").write_text(Path("sites/things.yaml").read_text())
        Path(f"sites/s{number}.pages").symlink_to("things.pages")
    change(".price", ".now", "s4")
    shown = json.loads(run("test", "--json", code=1).stdout)
    assert (shown["sites"], shown["pages"]) == (7, 28)
    assert {row["site"] for row in shown["differences"]} == {"s4"}
