"""`scraper new` on a shop whose home page chooses products at random, whose addresses redirect, and
whose rare products are on few lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.sites.definition import Site
from scraper.sites.loader import load_file
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.usefixtures("project")

EACH, PAGES = 10, 9
NUMBERS = range(100, 100 + EACH * PAGES)
# They are on the last pages of the list, and the page of offers names the first kind.
REDUCED, SOLD_OUT = (171, 174, 177), (181, 186)
LIST = "/index.php?main=all"


def write_url(number: int, *, whole: bool = True) -> str:
    main = "main=info&" if number % 9 else "main=book&"
    return f"/index.php?{main if whole else ''}id={number}"


def write_price(number: int) -> str:
    if number in REDUCED:
        return f'<div class="cost"><p class="x1">${number}.00</p><del>${number + 50}.00</del></div>'
    return f'<div class="cost"><p class="x2">${number}.00</p></div>'


def write_cards(numbers: Iterator[int] | range | tuple[int, ...]) -> str:
    return "".join(
        f'<li class="item"><a href="{write_url(n)}"><img src="/i/{n}.png">Pot {n}</a>'
        f"{write_price(n)}{'<em>Sold out</em>' if n in SOLD_OUT else ''}</li>"
        for n in numbers
    )


MENU = (
    f'<nav><a href="/">Home</a><a href="{LIST}">All Products ...</a>'
    '<a href="/index.php?main=offers">Specials [more]</a></nav>'
)


class ChosenPages(dict[str, str]):
    """The pages of the shop. The home page shows other products each time, with any parameter."""

    shown = count()

    def get(self, path: str, default: str | None = None) -> str | None:  # type: ignore[override]
        if path == "/" or path.startswith("/?"):
            at = next(self.shown) * 4
            chosen = tuple(NUMBERS[(at + 7 * n) % len(NUMBERS)] for n in range(9))
            dates = '<table><tr class="rowOdd"><td>12/24/2026</td><td>Closed</td></tr></table>'
            return f"{MENU}<h1>Welcome</h1>{dates}<ul>{write_cards(chosen)}</ul>"
        return super().get(path, default)


@pytest.fixture
def shop() -> Iterator[StaticShop]:
    pages = ChosenPages()
    for n in NUMBERS:
        stock = "Sold out" if n in SOLD_OUT else "In stock"
        pages[write_url(n)] = (
            f"<title>Pot {n}</title>{MENU}<h1>Pot {n}</h1>{write_price(n)}<p class=state>{stock}</p>"
        )
    for page in range(1, PAGES + 1):
        numbers = NUMBERS[EACH * page - EACH : EACH * page]
        on = f'<a class="next" href="{LIST}&page={page + 1}">Next</a>' if page < PAGES else ""
        body = f"{MENU}<h1>All</h1><ul>{write_cards(numbers)}</ul>{on}"
        pages[f"{LIST}&page={page}" if page > 1 else LIST] = body
    pages["/index.php?main=offers"] = f"{MENU}<h1>Offers</h1><ul>{write_cards(REDUCED)}</ul>"
    with StaticShop({}) as server:
        server.pages = pages
        server.redirects = {write_url(n, whole=False): write_url(n) for n in NUMBERS}
        yield server


def define(shop: StaticShop, project: Path) -> Site:
    result = CliRunner().invoke(main, ["new", f"{shop.url}/", "it", "--rate", "1000/s"])
    assert result.exit_code == 0, result.output
    return load_file(project / "sites" / "it.yaml")


def test_a_random_choice_at_home_is_not_a_list(shop: StaticShop, project: Path) -> None:
    site = define(shop, project)
    assert site.start == (f"{shop.url}{LIST}",) or list(site.start) == [f"{shop.url}{LIST}"]
    assert site.listing is not None and site.listing.pages is None


def test_a_parameter_that_the_shop_adds_again_stays(shop: StaticShop, project: Path) -> None:
    site = define(shop, project)
    assert "main" not in site.strip_params and "main" not in (site.product.strip_params or ())


def test_reduced_products_are_among_the_samples(shop: StaticShop, project: Path) -> None:
    site = define(shop, project)
    asked = {path for path, _ in shop.asked}
    assert sum(write_url(n) in asked for n in REDUCED) >= 2
    assert "list_price" in site.product.fields
