"""Brands and categories next to what only looks like one: breadcrumbs and logos."""

from __future__ import annotations

import pytest

from scraper.extract.document import Document
from scraper.plugins.author.discovery.fields.induction import FieldChoice, choose_fields
from scraper.plugins.author.discovery.fields.samples import ProductSample
from tests.unit.extract.extracting import fetched

SHOP = "https://shop.example/"
MAKERS = ("Acme", "Bolt", "Cork", "Dale", "Acme", "Bolt")


def choose(*shown: str, name: str = "Kettle {n}") -> dict[str, FieldChoice]:
    """Returns the fields chosen for pages of products that show this in addition."""
    samples = []
    for n, more in enumerate(shown):
        url, title = f"{SHOP}p/{n}", name.format(n=n, maker=MAKERS[n % len(MAKERS)])
        body = f"<title>{title}</title><h1>{title}</h1><b class=cost>${20 + n}.00</b>{more}"
        page = fetched(body, url, content_type="text/html; charset=utf-8")
        samples.append(ProductSample(Document(page, url), None))
    return choose_fields(samples)


@pytest.mark.parametrize(
    "shown",
    [
        '<table><tr><th>Brand</th><td><a href="/b"><img alt="{0}"></a></td></tr></table>',
        '<p><i>Brand</i><img alt="{0}"></p>',
    ],
)
def test_a_brand_is_read_from_its_logo(shown: str) -> None:
    brand = choose(*(shown.format(maker) for maker in MAKERS))["brand"].best
    assert brand is not None and tuple(brand.values) == MAKERS


@pytest.mark.parametrize(
    "shown",
    [
        "<ul><li>Brand: <a href=/{0}>{0}</a></li><li>Product Code: K</li></ul>",
        '<script type="application/ld+json">'
        '{{"@type": "Product", "name": "{0} Kettle", "brand": {{"name": "{0}"}}}}</script>',
        '<p class="brand">{0}</p>',
    ],
)
def test_a_brand_may_begin_each_title(shown: str) -> None:
    fields = choose(*(shown.format(maker) for maker in MAKERS), name="{maker} Kettle {n}")
    brand = fields["brand"].best
    assert brand is not None and tuple(brand.values) == MAKERS


def test_a_whole_title_is_not_a_brand() -> None:
    shown = (f'<p class="brand">{maker} Kettle {n}</p>' for n, maker in enumerate(MAKERS))
    assert choose(*shown, name="{maker} Kettle {n}")["brand"].best is None


def test_the_logo_of_the_shop_is_not_a_brand() -> None:
    logo = '<table><tr><th>Brand</th><td><img alt="Kettles and more"></td></tr></table>'
    assert choose(*[logo] * 6)["brand"].best is None


@pytest.mark.parametrize("scope", [' itemscope itemtype="https://schema.org/Product"', ""])
def test_the_first_of_the_breadcrumbs_is_not_a_category(scope: str) -> None:
    """Their microdata marks all of them as categories."""
    trail = (
        f'<div{scope}><p><a href="/" itemprop="category">All products</a> &gt; '
        '<a href="/k{0}" itemprop="category">Kettles {0}</a></p></div>'
    )
    category = choose(*(trail.format(n % 3) for n in range(6)))["category"].best
    assert category is None or "All products" not in category.values


def test_the_category_of_the_breadcrumb_is_not_a_brand() -> None:
    trail = (
        '<ul class="breadcrumb"><li><a href="/">Home</a></li><li><a href="/k{0}">Sort {0}</a></li>'
        '</ul><p class="brand">Sort {0}</p>'
    )
    fields = choose(*(trail.format("ABC"[n % 3]) for n in range(6)))
    assert fields["category"].best is not None and fields["brand"].best is None


def test_a_brand_that_begins_the_titles_is_not_a_category() -> None:
    trail = '<p class="category">Kettle</p>'
    other = '<p class="category">Kettle {0}</p>'
    fields = choose(*(other.format(n) for n in range(5)), trail)
    assert fields["category"].best is None


@pytest.mark.parametrize("stated", [True, False])
def test_a_number_of_another_line_is_not_an_article_number(stated: bool) -> None:
    """The lines have equal elements, and some products lack the first line."""
    shown, numbers = [], [None if n % 3 == 1 else f"AB-{n}-{n * 7}" for n in range(9)]
    for n, number in enumerate(numbers):
        line = f"<p class=sku>SKU: <span class=value>{number}</span></p>" if number else ""
        script = f'{{"@type":"Product","name":"Kettle {n}","sku":"{number or ""}"}}'
        data = f'<script type="application/ld+json">{script}</script>' if stated else ""
        shown.append(f"{data}<div>{line}<p>Stock: <span class=value>{50 + n}</span></p></div>")
    sku = choose(*shown)["sku"].combined
    assert sku is not None and sku.values == numbers


@pytest.mark.parametrize("nothing", ["N/A", "No", "n/a", "-", "–", "None"])
def test_what_replaces_a_brand_is_not_read(nothing: str) -> None:
    row = "<table><tr><th>Brand</th><td>{0}</td></tr><tr><th>EAN</th><td>{1}</td></tr></table>"
    codes = ("4006381333931", nothing, "5901234123457", nothing, "9780306406157", nothing)
    makers = (*MAKERS[:4], nothing, nothing)
    fields = choose(*(row.format(*pair) for pair in zip(makers, codes, strict=True)))
    brand, gtin = fields["brand"].best, fields["gtin"].best
    assert brand is not None and brand.values == [*MAKERS[:4], None, None]
    assert gtin is not None
    assert gtin.values == [None if code == nothing else code for code in codes]
