"""Several products on one page, tables, and lists of objects: what is read of pages as shops write
them, and what is said where something is missing, double or too much."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from scraper.domain import Extracted, Fetched, Kind
from scraper.errors import DefinitionError
from scraper.extract.extractor import compile_site
from scraper.extract.items import nested, reader
from scraper.extract.subprocess.wire import ReadResult, load_result
from scraper.plugins.author.discovery.trial import try_product
from scraper.plugins.author.repair.record_checks import find_differences
from scraper.plugins.author.repair.records import Record, read_page
from scraper.sites.definition import Site
from scraper.sites.loader import find_warnings, load_text

URL = "https://shop.example/p/1"
TABLE = """<h1>Shoe</h1><table class=v><tr><th>size<th>price</tr>
<tr data-sku=A><td class=s>40<td class=p>10.00 &euro;<td><a href=/a>x</a></tr>
<tr data-sku=B><td class=s>41<td class=p>12,50 &euro;</tr></table>"""
OWN = {"size": ".s", "price": {"css": ".p", "type": "price", "required": True}}
ITEMS = {"css": "table.v tr", "id": "::attr(data-sku)", "fields": OWN}


def read(product: dict[str, Any], page: str) -> Extracted:
    site = Site.model_validate({
        "name": "shop", "start": "https://shop.example/", "listing": {"products": "a"},
        "product": product,
    })  # fmt: skip
    fetched = Fetched(URL, 200, {"content-type": "text/html"}, page.encode())
    return compile_site(site).extract(Kind.PRODUCT, fetched, page_url=URL, depth=1)


def of_items(items: dict[str, Any], page: str, **more: Any) -> Extracted:
    return read({"fields": {"title": {"css": "h1", "required": True}}, "items": items} | more, page)


def data(extracted: Extracted) -> dict[str, Any]:
    return {product.external_id: dict(product.data) for product in extracted.products}


def jsonld(*nodes: object) -> str:
    blocks = (f'<script type="application/ld+json">{json.dumps(node)}</script>' for node in nodes)
    return f"<h1>Shoe</h1>{''.join(blocks)}"


def euros(size: str, amount: str) -> dict[str, Any]:
    price = {"price": Decimal(amount), "price_currency": "EUR"}
    return {"title": "Shoe", "size": size} | price


BOTH = {"A": euros("40", "10.00"), "B": euros("41", "12.50")}


@pytest.mark.parametrize(
    "items",
    [
        ITEMS,
        {
            "xpath": "//table[@class='v']//tr",
            "id": "./@data-sku",
            "fields": {"size": "td[1]", "price": {"xpath": "./td[2]", "type": "price"}},
        },
    ],
    ids=["css", "xpath"],
)
def test_elements_are_products_and_the_head_of_a_table_is_none(items: dict[str, Any]) -> None:
    extracted = of_items(items, TABLE)
    assert (data(extracted), extracted.problems) == (BOTH, [])
    assert extracted.items is not None
    assert (extracted.items.records, extracted.items.whole, extracted.items.unread) == (2, True, ())
    assert sorted(extracted.found) == ["price", "price", "size", "size", "title", "title"]


VARIANTS = [
    {"@type": "Product", "sku": "A", "size": "40", "offers": {"price": 10.00, "priceCurrency": "EUR"}},
    {"@type": "Product", "sku": "B", "size": "41",
     "offers": [{"priceSpecification": {"price": "12.50", "priceCurrency": "EUR"}}]},
]  # fmt: skip
OF_JSON = {
    "id": "sku",
    "fields": {"size": "size", "price": {"path": "offers.price", "type": "price"}},
}


@pytest.mark.parametrize(
    ("scope", "nodes"),
    [
        ("hasVariant", [{"@type": "ProductGroup", "hasVariant": VARIANTS}]),
        (
            "ProductGroup.hasVariant",
            [{"@graph": [{"@type": "ProductGroup", "hasVariant": VARIANTS}]}],
        ),
        ("Product", [VARIANTS]),
        ("Product", VARIANTS),
        (
            "hasVariant",
            [
                {"@type": "ProductGroup", "hasVariant": [{"@id": "#a"}, {"@id": "#b"}]},
                VARIANTS[0] | {"@id": "#a"},
                VARIANTS[1] | {"@id": "#b"},
            ],
        ),
    ],
)
def test_json_ld_variants_as_shops_write_them(scope: str, nodes: list[Any]) -> None:
    extracted = of_items({"jsonld": scope} | OF_JSON, jsonld(*nodes))
    # JSON's 10.0 is the same number as 10.
    assert data(extracted) == BOTH


@pytest.mark.parametrize("inside", [False, True])
def test_offers_are_products_also_within_an_aggregate(inside: bool) -> None:
    offers: Any = [
        {"sku": key, "price": price, "priceCurrency": "EUR"} for key, price in (("A", 1), ("B", 2))
    ]
    if inside:
        offers = {"@type": "AggregateOffer", "lowPrice": 1, "offers": offers}
    items = {
        "jsonld": "offers",
        "id": "sku",
        "fields": {"price": {"path": "price", "type": "price"}},
    }
    extracted = of_items(items, jsonld({"@type": "Product", "name": "x", "offers": offers}))
    assert {key: row["price"] for key, row in data(extracted).items()} == {"A": 1, "B": 2}
    assert {row["price_currency"] for row in data(extracted).values()} == {"EUR"}


@pytest.mark.parametrize(
    ("scope", "page"),
    [
        (
            {"css": "form::attr(data-product_variations)"},
            "<h1>Shoe</h1><form data-product_variations='{}'>",
        ),
        ({"xpath": "//form/@data-product_variations"}, "<h1>Shoe</h1><form data-product_variations='{}'>"),
        ({"css": "script#v::text", "path": "all.variants"},
         '<h1>Shoe</h1><script type="text/x" id=v>{{"all": {{"variants": {}}}}}</script>'),
        ({"state": "product.variants"},
         '<h1>Shoe</h1><script>window.__S__ = {{"product": {{"variants": {}}}}}</script>'),
    ],
)  # fmt: skip
def test_json_in_attributes_and_scripts(scope: dict[str, Any], page: str) -> None:
    variants = json.dumps(
        [{"id": 1, "cost": 9.5, "attributes": {"size": "40"}}, {"id": 2, "cost": 8}, {"x": 1}]
    )
    items = scope | {
        "id": "id",
        "fields": {
            "price": {"path": "cost", "type": "price", "currency": "EUR", "required": True},
            "size": "attributes.size",
        },
    }
    extracted = of_items(items, page.format(variants))
    assert {key: row["price"] for key, row in data(extracted).items()} == {
        "1": Decimal("9.5"), "2": Decimal("8")
    }  # fmt: skip
    assert data(extracted)["1"]["size"] == "40" and extracted.problems == []


def test_one_that_is_broken_leaves_its_siblings_alone() -> None:
    extracted = of_items(ITEMS, TABLE + "<table class=v><tr data-sku=C><td class=s>42</table>")
    assert data(extracted) == BOTH and extracted.complete
    assert extracted.items is not None
    assert (extracted.items.unread, extracted.items.whole, extracted.items.records) == (
        ("C",),
        True,
        3,
    )
    assert extracted.problems == ["price: nothing matched css '.p' (1 of 3 items, such as C)"]


def test_one_without_an_id_says_so() -> None:
    extracted = of_items(
        ITEMS, TABLE + "<table class=v><tr><td class=s>42<td class=p>1 &euro;</table>"
    )
    assert data(extracted) == BOTH
    assert extracted.items is not None and not extracted.items.whole
    assert extracted.problems == [
        "id: nothing matched css '::attr(data-sku)' (1 of 3 items, such as an item without an id)"
    ]


def test_the_same_one_twice_is_one_and_another_with_its_id_is_none() -> None:
    assert data(of_items(ITEMS, TABLE + TABLE)) == BOTH
    other = "<table class=v><tr data-sku=A><td class=s>99<td class=p>1 &euro;</table>"
    for page in (TABLE + other, TABLE + other + other, TABLE + other + TABLE):
        extracted = of_items(ITEMS, page)
        assert data(extracted) == {"B": BOTH["B"]}
        assert extracted.items is not None and extracted.items.unread == ("A",)
        assert "id: 'A' belongs to products that differ" in extracted.problems[0]


def test_the_pages_id_as_each_items_id_is_found_out() -> None:
    page = TABLE.replace("data-sku=B", "data-sku=A")
    extracted = of_items(ITEMS, page)
    assert not extracted.complete and not extracted.products


def test_without_items_or_what_the_page_must_have_nothing_is_stored() -> None:
    assert not of_items(ITEMS, "<h1>Shoe</h1>").complete
    assert of_items(ITEMS, "<h1>Shoe</h1>").problems == ["items: nothing matched css 'table.v tr'"]
    without = of_items(ITEMS, TABLE.replace("<h1>Shoe</h1>", ""))
    assert (without.complete, without.products) == (False, [])
    assert without.problems == ["title: nothing matched css 'h1'"]


def test_a_page_has_a_maximum_of_items() -> None:
    row = "<tr data-sku=A{0}><td class=s>1<td class=p>{0} &euro;</tr>"
    page = f"<h1>x</h1><table class=v>{''.join(map(row.format, range(10_000)))}</table>"
    extracted = of_items(ITEMS, page)
    assert len(extracted.products) == reader.ITEMS_MAX == 2500
    assert extracted.problems == ["items: 10,000 on the page, the first 2,500 are read"]
    assert extracted.items is not None and not extracted.items.whole


def test_elements_within_each_other_are_bounded_together() -> None:
    """Each holds all that follow it: a page of a megabyte would become gigabytes."""
    depth = 400
    page = (
        "<h1>x</h1>" + "".join(f"<div class=i data-sku={n}>" for n in range(depth)) + "x" * 60_000
    )
    items = {"css": ".i", "id": "::attr(data-sku)", "fields": {"text": "div"}}
    extracted = of_items(items, page)
    size = sum(len(str(row)) for row in data(extracted).values())
    assert size < 1.1 * reader.CHARS_MAX
    assert "on the page, the first" in extracted.problems[-1]


def test_an_item_takes_no_value_of_the_page_alone() -> None:
    """A sibling's price is the wrong price."""
    product = {
        "id": "body::attr(data-id)",
        "fields": {"title": "h1", "price": {"css": ".main", "type": "price"}},
        "items": ITEMS | {"optional": True, "fields": {"price": {"css": ".p", "type": "price"}}},
    }
    page = "<body data-id=7><h1>Shoe</h1><b class=main>5 &euro;</b>{}"
    alone = read(product, page.format(""))
    assert data(alone) == {"7": {"title": "Shoe", "price": 5, "price_currency": "EUR"}}
    assert alone.items is not None and alone.items.whole
    several = data(read(product, page.format("<table class=v><tr data-sku=A><td>?</table>")))
    assert several == {"A": {"title": "Shoe"}}


def test_an_answer_of_a_process_of_its_own_may_have_items() -> None:
    import pickle

    extracted = of_items(ITEMS, TABLE)
    assert load_result(bytearray(pickle.dumps(ReadResult(extracted)))).extracted == extracted


SPECS = """<table class=spec><tr><th>Weight:<td>3 kg</tr><tr><th>Colour</th><td>red</tr><tr><td>no name</tr>
<tr><th>Weight<td>4 kg</tr></table>
<dl><dt>Sizes<dd>S<dd>M<dt>Empty<dt>Made of<dd>wool</dl>"""


def test_tables_and_lists_are_objects_in_the_databases_order() -> None:
    fields = {
        "specs": {"table": "table.spec tr", "key": "th", "value": "td"},
        "facts": {"table": "dl", "key": "dt", "value": "dd"},
        "first": {"any": [
            {"table": ".nothing", "key": "b", "value": "i"},
            {"table": "dl", "key": "dt", "value": "dd"},
        ]},
    }  # fmt: skip
    (product,) = read({"fields": fields}, SPECS).products
    assert product.data == {
        "specs": {"Colour": "red", "Weight": "3 kg"},
        "facts": {"Sizes": "S, M", "Made of": "wool"},
        "first": {"Sizes": "S, M", "Made of": "wool"},
    }
    assert [list(value) for value in product.data.values()] == [
        ["Colour", "Weight"], ["Sizes", "Made of"], ["Sizes", "Made of"]
    ]  # fmt: skip


def test_tables_are_bounded() -> None:
    rows = "".join(f"<tr><th>k{number}<td>v" for number in range(3000))
    fields = {"specs": {"table": "tr", "key": "th", "value": "td"}}
    extracted = read({"fields": fields}, f"<table>{rows}</table>")
    assert len(extracted.products[0].data["specs"]) == nested.PAIRS_MAX
    assert extracted.problems == ["specs: more than 1,000 pairs or 500,000 characters, cut"]
    long = "".join(f"<tr><th>k{number}<td>{'v' * 90_000}" for number in range(10))
    specs = read({"fields": fields}, f"<table>{long}</table>").products[0].data["specs"]
    assert sum(map(len, specs.values())) <= nested.CHARS_MAX


def test_lists_of_objects() -> None:
    page = "<div class=g><img src=/a.jpg alt=One><img src=b.jpg><img alt=None></div>" + jsonld(
        {"@type": "Product", "offers": [{"price": 1, "seller": {"name": "X"}}, {"price": 2}]}
    )
    fields = {
        "images": {"css": ".g img", "each": {
            "src": {"css": "::attr(src)", "type": "url", "required": True}, "alt": "::attr(alt)"}},
        "same": {"xpath": "//img", "each": {"src": {"xpath": "./@src", "required": True}}},
        "offers": {"jsonld": "offers", "each": {
            "seller": "seller.name", "cost": {"path": "price", "type": "int"}}},
    }  # fmt: skip
    (product,) = read({"fields": fields}, page).products
    assert product.data == {
        "images": [
            {"alt": "One", "src": "https://shop.example/a.jpg"},
            {"src": "https://shop.example/p/b.jpg"},
        ],
        "same": [{"src": "/a.jpg"}, {"src": "b.jpg"}],
        "offers": [{"cost": 1, "seller": "X"}, {"cost": 2}],
    }


def test_items_have_tables_and_lists_of_their_own() -> None:
    page = "<h1>x</h1><div class=i data-sku=A><dl><dt>a<dd>1</dl><img src=1><img src=2></div><dl><dt>b<dd>2</dl>"
    items = {"css": ".i", "id": "::attr(data-sku)", "fields": {
        "facts": {"table": "dl", "key": "dt", "value": "dd"},
        "images": {"css": "img", "each": {"src": "::attr(src)"}},
    }}  # fmt: skip
    assert data(of_items(items, page))["A"] == {
        "title": "x", "facts": {"a": "1"}, "images": [{"src": "1"}, {"src": "2"}]
    }  # fmt: skip
    items = {"jsonld": "hasVariant", "id": "sku", "fields": {
        "images": {"path": "image", "each": {"src": "contentUrl"}}}}  # fmt: skip
    variant = {"sku": "A", "image": [{"contentUrl": "u"}, {"contentUrl": "v"}]}
    page = jsonld({"@type": "ProductGroup", "hasVariant": [variant]})
    assert data(of_items(items, page))["A"]["images"] == [{"src": "u"}, {"src": "v"}]


def test_try_shows_an_items_fields_with_their_sources() -> None:
    site = Site.model_validate({
        "name": "shop", "start": "https://shop.example/", "listing": {"products": "a"},
        "product": {"fields": {"title": "h1"}, "items": ITEMS},
    })  # fmt: skip
    page = Fetched(URL, 200, {}, TABLE.encode())
    trial = try_product(site, page, URL, ())
    assert (trial.external_id, trial.complete, len(trial.items)) == ("A", True, 2)
    assert trial.items[1].data == {"size": "41", "price": Decimal("12.50"), "price_currency": "EUR"}
    other = try_product(site, page, URL, (), "B")
    assert {row.name: (row.value, row.source) for row in other.fields} == {
        "title": ("Shoe", "css 'h1'"),
        "size": ("41", "css '.s'"),
        "price": (Decimal("12.50"), "css '.p'"),
        "price_currency": ("EUR", "css '.p'"),
    }


HEAD = "start: https://shop.example/\nlisting: {products: a}\nproduct:\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("  fields: {t: h1}\n  items: {css: tr}", 5, "`id` is missing"),
        ("  fields: {t: h1}\n  items: {id: a}", 5, "no source (fix: give one of css, xpath"),
        ("  fields: {t: h1}\n  items: {css: tr, xpath: //tr, id: a}", 5, "css and xpath together"),
        ("  fields: {t: h1}\n  items: {css: tr, path: a, id: a}", 5, "is for JSON, but css selects"),
        ("  fields: {t: h1}\n  items:\n    css: tr\n    id: a\n    fields:\n      t: td", 9, "is also a field of the page"),
        ("  id: b\n  fields: {t: h1}\n  items: {css: tr, id: a}", 4, "each product has its own"),
        ("  items:\n    css: tr\n    id: a\n    fields:\n      p: {jsonld: offers.price}", 8,
         "jsonld cannot be read here: `items` matches"),
        ("  items:\n    jsonld: offers\n    id: sku\n    fields:\n      p: {css: .a}", 8,
         "css cannot be read here: `items` matches JSON (fix: `path:`"),
        ("  items:\n    xpath: //tr\n    id: ./@a\n    fields:\n      p: //td", 8, "starts at the page's root"),
        ("  items:\n    css: tr\n    id: a\n    filds: {}", 7, "did you mean `fields`?"),
        ("  items:\n    css: tr\n    id: a\n    fields:\n      p: {cs: a}", 8, "did you mean `css`?"),
        ("  fields:\n    s: {table: tr}", 5, "`key: th` and `value: td`"),
        ("  fields:\n    s: {key: th, css: tr}", 5, "key is for `table`"),
        ("  fields:\n    s: {table: tr, key: th, value: td, css: b}", 5, "table and css together"),
        ("  fields:\n    s: {table: 'tr::text', key: th, value: td}", 5, "it must select elements"),
        ("  fields:\n    s: {table: tr, key: th, value: td, type: text}", 5, "(fix: remove `type`)"),
        ("  fields:\n    s: {table: tr, key: th, value: td, many: true}", 5, "many has no effect with table"),
        ("  fields:\n    s: {css: a, type: object}", 5, "only `table` or `each` gives object"),
        ("  fields:\n    s: {any: [{table: tr, key: th, value: td}, h1]}", 5, "a table and another source"),
        ("  fields:\n    i:\n      css: img\n      each:\n        src: {path: a}", 8, "path cannot be read here: `each`"),
        ("  fields:\n    i: {css: img, each: {}}", 5, "each"),
        ("  fields:\n    i: {meta: og:image, each: {a: b}}", 5, "meta matches neither elements"),
        ("  fields:\n    i: {css: img, join: ',', each: {a: b}}", 5, "join has no effect with each"),
        ("  fields:\n    p: {path: a.b}", 5, "path is only for `response`"),
        ("  fields:\n    i:\n      css: img\n      each:\n        a: {css: b, each: {c: d}}", 8, "`each` cannot be nested"),
        ("  function: a.b:c\n  items: {css: tr, id: a}", 4, "replaces id, fields and items"),
    ],
)  # fmt: skip
def test_mistakes_are_said_with_their_line_and_a_fix(text: str, line: int, said: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        load_text(HEAD + text, "shop.yaml")
    assert any(
        f"shop.yaml:{line}: " in problem and said in problem for problem in raised.value.problems
    ), raised.value.problems


def test_items_with_ids_cause_no_warning() -> None:
    text = HEAD + "  items: {css: tr, id: a, fields: {t: {css: td, required: true}}"
    (uncounted,) = find_warnings(load_text(text + "}", "shop.yaml"))
    assert "nothing says how many products the shop has" in uncounted
    _, warning = find_warnings(load_text(text + ", optional: true}", "shop.yaml"))
    assert "no product.id" in warning


def test_recorded_rows_are_compared_with_the_row_of_their_id() -> None:
    site = Site.model_validate({
        "name": "shop", "start": "https://shop.example/", "listing": {"products": "a"},
        "product": {"fields": {"title": "h1"}, "items": ITEMS},
    })  # fmt: skip
    page = Fetched(URL, 200, {}, TABLE.encode())
    expected = read_page(site, Kind.PRODUCT, URL, page, ())
    assert [row["id"] for row in expected["rows"]] == ["A", "B"]
    record = Record(Kind.PRODUCT, URL, page, expected)
    other = Fetched(
        URL, 200, {}, TABLE.replace("12,50", "13").replace("data-sku=A", "data-sku=C").encode()
    )
    found = find_differences("shop", record, read_page(site, Kind.PRODUCT, URL, other, ()))
    assert {(difference.field, difference.old, difference.new) for difference in found} == {
        ("id", "A", None), ("id", None, "C"), ("price", 12.5, 13)
    }  # fmt: skip
