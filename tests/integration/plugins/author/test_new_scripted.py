"""`scraper new` on shops whose pages only scripts fill: by the JSON that is in them, by a browser
where there is one, and what it says where there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.domain import Kind
from scraper.rules.routing import choose_route, is_browser_queue
from scraper.sites.loader import load_file
from tests.support.shops.script_shops import QUEUES, SCRIPTED
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    return result


def new(server: StaticShop, start: str, name: str, code: int = 0) -> Result:
    return run("new", f"{server.url}{start}", name, "--rate", "1000/s", code=code)


@pytest.mark.parametrize("name", SCRIPTED)
def test_every_product_is_found_and_every_field_right(
    name: str, project: Path, installed_chromium: str
) -> None:
    shop = SCRIPTED[name]()
    with StaticShop(shop.pages) as server:
        new(server, shop.start, name)
        pages = [path for path in server.paths if not path.startswith("/api/")]
        assert len(pages) <= 60
        file = project / "sites" / f"{name}.yaml"
        site = load_file(file)
        queues = [
            choose_route(site.routing_preferences, kind, "").queue
            for kind in (Kind.LISTING, Kind.PRODUCT)
        ]
        assert tuple(map(is_browser_queue, queues)) == QUEUES[name], file.read_text()
        shown = json.loads(run("crawl", name, "--preview", "99", "--json").stdout)
    rows = {urlsplit(row["url"]).path: row for row in shown}
    assert rows.keys() == shop.truth.keys(), file.read_text()
    for path, truth in shop.truth.items():
        for field, value in truth.items():
            given = rows[path][field]
            if field == "image":
                given = urlsplit(given).path
            elif field in ("price", "rating"):
                given, value = float(given), float(value)
            assert given == value, (path, field, file.read_text())


def test_a_page_that_was_shown_empty_is_read_again(project: Path, installed_chromium: str) -> None:
    shop = SCRIPTED["spa"]()
    fails = sorted(path for path in shop.pages if path.startswith("/api/product/"))[4]
    with StaticShop(shop.pages) as server:
        server.pages = FailsOnce(shop.pages, fails)
        new(server, shop.start, "spa")
        assert server.paths.count(fails) == 2
    assert load_file(project / "sites/spa.yaml").product.fields.keys() >= {"title", "price", "sku"}


class FailsOnce(dict[str, str]):
    """Pages, one of which is not JSON at first."""

    def __init__(self, pages: Mapping[str, str], fails: str) -> None:
        super().__init__(pages)
        self._fails: str | None = fails

    def get(self, path: str, default: str | None = None) -> str | None:  # type: ignore[override]
        if path == self._fails:
            self._fails = None
            return "{"
        return super().get(path, default)


def test_json_in_the_pages_needs_no_browser(project: Path, no_browser: None) -> None:
    shop = SCRIPTED["next_data"]()
    with StaticShop(shop.pages) as server:
        new(server, shop.start, "json")
    text = (project / "sites/json.yaml").read_text()
    assert "{state: '__NEXT_DATA__.props.pageProps.listing.hits.url'}" in text
    assert "browser" not in text


def test_unconfirmed_whole_numbers_may_be_cents(project: Path, no_browser: None) -> None:
    shop = SCRIPTED["next_data"]()
    in_cents = {
        path: re.sub(
            r'"price": {"value": "(\d+)\.(\d\d)"', r'"price": {"value": "\1\2"', page
        ).replace('"hits"', '"menu_hits"')
        for path, page in shop.pages.items()
    }
    links = "".join(f'<a href="{path}"><img src=x.png><b>{path}</b></a>' for path in shop.truth)
    with StaticShop({**in_cents, "/all": f"<div>{links}</div>"}) as server:
        new(server, "/all", "cents")
    text = (project / "sites/cents.yaml").read_text()
    assert "# price: nothing on the pages was certain enough" in text


@pytest.mark.parametrize("name", ["spa", "late_price"])
def test_without_a_browser_it_says_what_to_install(
    name: str, project: Path, no_browser: None
) -> None:
    shop = SCRIPTED[name]()
    with StaticShop(shop.pages) as server:
        result = new(server, shop.start, name, code=int(name == "spa"))
    assert "apt install chromium" in result.stderr
    site = load_file(project / f"sites/{name}.yaml")
    if name == "spa":
        assert "unproved" in result.stderr
        assert site.queue == "browser"


def test_what_a_browser_does_not_show_either_is_not_a_shop(
    project: Path, installed_chromium: str
) -> None:
    page = "<title>News</title><script>document.title = 'News'</script><h1>News</h1>"
    with StaticShop({"/": page}) as server:
        assert "a browser was used, too" in new(server, "/", "news", code=1).stderr
    assert list(project.glob("sites/*.yaml")) == []
