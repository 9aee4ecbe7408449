"""`scraper shell` as it is typed: a prompt on a page, polite and without a trace."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from scraper.cli.main import main
from tests.support.shops.static_shop import StaticShop
from tests.support.shops.things_shop import define

JSONLD = '<script type="application/ld+json">{"@type": "Product", "name": "Pan"}</script>'


def typed(target: str, *lines: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["shell", target], input="".join(f"{x}\n" for x in lines))
    assert result.exit_code == code, result.output
    return result


def test_a_page_of_a_url_and_others_from_there(shop: StaticShop) -> None:
    shop.pages["/"] += JSONLD
    shown = typed(
        f"{shop.url}/",
        "len(css('a.p'))",
        "xpath('(//a)[2]'), xpath('descendant::a[3]')",
        "jsonld[0]['name']",
        "fetch('p/3')",
        "css('.price'), page.status",
        "fetch('/secret')",
        "css('h1')",
    ).output
    for text in ("7", "(['Thing 2'], ['Thing 3'])", "'Pan'", "(['£3.50'], 200)", "['Thing 3']"):
        assert text in shown
    assert "robots" in shown
    assert shop.paths == ["/robots.txt", "/", "/p/3"]
    assert list(Path().iterdir()) == []


def test_a_site_and_a_file(shop: StaticShop) -> None:
    define(shop)
    assert "'Thing 7'" in typed("things", "css('a.p')[6]").output
    asked = len(shop.asked)
    Path("page.html").write_text("<h1>A\x1b[31mB</h1>")
    shown = typed("page.html", "css('h1')").output
    assert "\x1b" not in shown and "B'" in shown and len(shop.asked) == asked


def test_what_is_wrong_is_said(shop: StaticShop) -> None:
    assert "robots" in typed(f"{shop.url}/secret", code=1).output
    assert "ValueError" in typed(f"{shop.url}/", "css('a[')", "1 + 1").output
