from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Kind
from scraper.extract import compile_site
from scraper.extract.document import Document
from scraper.extract.structured import jsonld
from scraper.extract.text import whole_text
from scraper.rules.decoding import parse_html
from scraper.sites.loader import load_text
from tests.unit.extract.extracting import START, URL, fetched, product, site, value

PAGE = """<html><head><title>t</title></head><body class="page">
<h1>  A <b>light</b>\n in\u00a0the&nbsp;attic <script>var x = 1</script></h1>
<p class="price">£51.77</p><p class="was">£60.00</p>
<ul class="specs"><li>Red</li><li>Green</li><li> </li></ul>
<p class="stock">\n <i></i>\n In stock (22 available)</p>
<p class="rating Three"></p>
<a class="image" href="../img/a.png">x</a>
<script>window.state = {"internalId": "X-9"}</script>
</body></html>"""


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("h1", "A light in the attic"),
        ("'h1::text'", "A"),
        ("'p.rating::attr(class)'", "rating Three"),
        ("{xpath: '//p[has-class(\"price\")]/text()'}", "£51.77"),
        ("{xpath: '//p[re:test(@class, \"^w\")]'}", "£60.00"),
        ("{xpath: 'count(//li)', type: int}", 3),
        ("{xpath: 'boolean(//li)', type: bool}", True),
        ('{regex: \'"internalId": "(.+?)"\'}', "X-9"),
        ("{url: '_(\\d+)/', type: int}", 7),
        ("{css: '.stock::text', regex: '(\\d+) available', type: int}", 22),
        ("{css: .stock, regex: '\\d+'}", "22"),
        ("{css: '.rating::attr(class)', regex: 'rating (\\w+)', map: {Three: 3}, type: int}", 3),
        ("{css: '.rating::attr(class)', regex: 'rating (\\w+)', map: {Four: 4}, type: int}", None),
        ("{css: .stock, type: bool, when: In stock}", True),
        ("{css: .stock, type: bool, when: Sold out}", False),
        ("{css: .nothing, type: bool, when: x}", False),
        ("{css: 'li', many: true}", ["Red", "Green"]),
        ("{css: 'li', type: list}", ["Red", "Green"]),
        ("{css: '.specs', type: list, split: 'e'}", ["R", "d Gr", "n"]),
        ("{css: '.image::attr(href)', type: url}", "https://shop.example/catalogue/img/a.png"),
        ("{css: .nothing, default: none}", "none"),
        ("{css: h1, type: int, default: 4}", 4),
        ("{any: [.nothing, .nowhere]}", None),
        ("{any: [{jsonld: name}, h1]}", "A light in the attic"),
        ("{any: [{css: h1, regex: '\\d+'}, .price], type: price}", Decimal("51.77")),
        ("{css: p, type: price, many: true}", [Decimal("51.77"), Decimal("60.00"), Decimal("22")]),
        ("{css: h1, max_length: 3}", "A l"),
        ("{css: .nothing}", None),
    ],
)
def test_a_field(field: str, expected: object) -> None:
    assert value(field, PAGE) == expected


def test_a_price_gives_its_currency_too() -> None:
    (found,) = product("price: {css: .price, type: price}", PAGE).products
    assert found.data == {"price": Decimal("51.77"), "price_currency": "GBP"}


def test_text_between_blocks_is_kept_apart() -> None:
    root = parse_html(
        b"<div><p>one</p><p>two<br>three</p><b>fo</b>ur<!-- x --><style>p{}</style> five</div>tail"
    )
    div = next(root.iter("div"))
    assert " ".join(whole_text(div).split()) == "one two three four five"


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("Tea<b>pot</b>s", " Teapots "),
        ("4<!-- not this -->2 <br>cm<script>var x</script>!", " 42   cm! "),
        ("a<p>b</p>c<p></p>", " a b c   "),
        ("a<style>b</style><i>c</i>", " ac "),
        ("", ""),
    ],
)
def test_text_of_one_level_is_as_of_several(inner: str, text: str) -> None:
    flat = parse_html(f"<div>{inner}</div>".encode())[0][0]
    deep = parse_html(f"<div>{inner}<b><i></i></b></div>".encode())[0][0]
    assert whole_text(flat) == text
    assert inner == "" or whole_text(deep) == text


def test_a_missing_required_field_makes_the_page_incomplete_and_says_why() -> None:
    found = product(
        "title: {css: 'h2::text', required: true}, price: {any: [{jsonld: a}, .b], required: true}",
        PAGE,
    )
    assert (found.complete, found.products) == (False, [])
    assert found.problems == [
        "title: nothing matched css 'h2::text'",
        "price: nothing matched jsonld 'a' or css '.b'",
    ]


def test_a_mistyped_field_is_a_problem_and_only_required_ones_stop_the_page() -> None:
    found = product("a: {css: h1, type: int}, b: .price", PAGE)
    assert found.products[0].data == {"b": "£51.77"}
    assert found.problems == ["a: 'A light in the attic' is not a whole number (css 'h1')"]
    assert not product("a: {css: h1, type: int, required: true}", PAGE).complete


def test_too_long_texts_are_cut_with_a_problem_and_too_long_numbers_refused() -> None:
    body = f"<h1>{'9' * 120_000}</h1>"
    found = product("a: h1, b: {css: h1, type: int}", body)
    assert len(found.products[0].data["a"]) == 100_000
    assert "b" not in found.products[0].data
    assert found.problems == [
        "a: 120,000 characters, cut",
        "b: 120,000 characters are not a value of type int (css 'h1')",
    ]


def test_lists_are_bounded() -> None:
    found = value("{css: li, many: true}", "<ul>" + "<li>x</li>" * 2000)
    assert isinstance(found, list)
    assert len(found) == 1000


def test_a_regex_that_never_ends_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scraper.sites.grammar.selectors.REGEX_TIMEOUT_S", 0.01)
    found = product(
        "a: {css: h1, regex: '(.*)(.*)(.*)(.*)(.*)[^a]\\1', required: true}",
        f"<h1>{'a' * 400}</h1>",
    )
    assert found.problems == ["a: a regular expression took longer than 0.01 s on this page"]
    assert not found.complete


def test_ids() -> None:
    def of(spec: str, url: str = URL, asked: str | None = None) -> tuple[str | None, list[str]]:
        extractor = site(
            f"{START}listing: {{products: a}}\nproduct: {{id: {spec}, fields: {{a: h1}}}}\n"
        )
        found = extractor.extract(Kind.PRODUCT, fetched(PAGE, url), page_url=asked or url, depth=1)
        return (found.products[0].external_id if found.products else None), found.problems

    assert of("{url: '_(\\d+)/'}") == ("7", [])
    assert of("{url: '_(\\d+)/'}", "https://shop.example/new", URL) == ("7", [])
    assert of(".price") == ("£51.77", [])
    assert of('{any: [{jsonld: sku}, {regex: \'"internalId": "(.+?)"\'}]}') == ("X-9", [])
    assert of("{jsonld: sku}") == (None, ["id: nothing matched jsonld 'sku'"])
    assert of("{regex: '(?s).{501,}'}")[0] is None


def test_the_default_id_is_the_canonical_url_and_never_too_long() -> None:
    assert (
        product("a: h1", PAGE, URL + "?b=2&a=1&utm_source=x").products[0].external_id
        == URL + "?a=1&b=2"
    )
    long = product("a: h1", PAGE, "https://shop.example/" + "x" * 1900).products[0].external_id
    assert len(long) == 500


LD = {
    "@context": "https://schema.org",
    "@graph": [
        {
            "@type": "BreadcrumbList",
            "itemListElement": [{"item": {"name": "Home"}}, {"item": {"name": "Attics"}}],
        },
        {
            "@type": ["Product", "Thing"],
            "name": "Light",
            "sku": 12345678901234567890123,
            "brand": {"@type": "Brand", "name": "B"},
            "image": ["/a.png", {"@type": "ImageObject", "url": "/b.png"}],
            "offers": [
                {
                    "@type": "Offer",
                    "price": 19.90,
                    "priceCurrency": "eur",
                    "availability": "https://schema.org/InStock",
                }
            ],
            "isRelatedTo": {"@type": "Product", "name": "Other", "gtin": "999"},
        },
    ],
}


def ld(data: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(data)}</script>'


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{jsonld: name}", "Light"),
        ("{jsonld: Product.name}", "Light"),
        ("{jsonld: sku}", "12345678901234567890123"),
        ("{jsonld: brand}", "B"),
        ("{jsonld: brand.name}", "B"),
        (
            "{jsonld: image, type: url, many: true}",
            ["https://shop.example/a.png", "https://shop.example/b.png"],
        ),
        ("{jsonld: 'image[1]', type: url}", "https://shop.example/b.png"),
        ("{jsonld: 'image[7]'}", None),
        ("{jsonld: offers.price}", "19.9"),
        ("{jsonld: offers.availability, type: bool}", True),
        ("{jsonld: 'BreadcrumbList.itemListElement[-1].item.name'}", "Attics"),
        ("{jsonld: gtin}", None),
        ("{jsonld: Offer.price}", "19.9"),
        ("{jsonld: Nothing.price}", None),
    ],
)
def test_jsonld(field: str, expected: object) -> None:
    assert value(field, ld(LD)) == expected


def test_a_jsonld_price_takes_the_currency_next_to_it_and_reads_dots_as_json_does() -> None:
    found = (
        product("price: {jsonld: offers.price, type: price, currency: USD}", ld(LD))
        .products[0]
        .data
    )
    assert found == {"price": Decimal("19.9"), "price_currency": "EUR"}
    assert value(
        "{jsonld: offers.price, type: price}", ld({"@type": "Product", "offers": {"price": 1.234}})
    ) == Decimal("1.234")


WRITTEN = '{"@type": "Product", "name": "Light", "offers": {"price": "19.90"}}'


@pytest.mark.parametrize(
    "script",
    [
        WRITTEN,
        WRITTEN.replace('"Product"', '"product"'),
        WRITTEN.replace('"Product"', '"http://schema.org/PRODUCT"'),
        f"/*<![CDATA[*/{WRITTEN}/*]]>*/",
        f"//<![CDATA[\n{WRITTEN}\n//]]>",
        f"<!-- {WRITTEN} -->",
        WRITTEN.replace("}}", "},}"),
        f"[{WRITTEN},]",
        f'{{"@type": "Organization"}}\n{WRITTEN}',
        f"{WRITTEN};",
        WRITTEN.replace('"', "&quot;"),
        WRITTEN.replace("Light", "Light\nbulb, }").replace("}}", ",}}"),
    ],
)
@pytest.mark.parametrize("kind", ["application/ld+json", "Application/LD+JSON; charset=utf-8"])
def test_jsonld_as_shops_write_it(script: str, kind: str) -> None:
    page = f'<script type="{kind}">{script}</script>'
    assert value("{jsonld: offers.price, type: price}", page) == Decimal("19.90")
    assert str(value("{jsonld: name}", page)).startswith("Light")


@pytest.mark.parametrize(
    "offers",
    [
        {"priceSpecification": {"price": 5, "priceCurrency": "EUR"}},
        [{"priceSpecification": [{"price": 5, "priceCurrency": "EUR"}]}],
        {"price": None, "priceSpecification": {"price": "5", "priceCurrency": "EUR"}},
        {"@type": "AggregateOffer", "lowPrice": "5", "highPrice": 9, "priceCurrency": "EUR"},
        {
            "priceCurrency": "EUR",
            "priceSpecification": [
                {"price": 9, "priceType": "https://schema.org/ListPrice"},
                {"price": 50, "referenceQuantity": {"unitCode": "KGM"}},
                {"price": 5},
            ],
        },
    ],
)
def test_offers_that_say_their_price_elsewhere(offers: object) -> None:
    page = ld({"@type": "Product", "offers": offers})
    (found,) = product("price: {jsonld: offers.price, type: price}", page).products
    assert found.data == {"price": Decimal(5), "price_currency": "EUR"}


def test_plain_json_has_only_what_is_at_its_paths() -> None:
    answer = {"offer": {"lowPrice": 5, "price": None}, "brand": "B"}
    for steps in (("offer", "price"), ("brand", "name")):
        assert list(jsonld.find_texts_in_documents([answer], steps)) == []
    assert list(jsonld.find_texts_in_documents([answer], ("brand",))) == ["B"]


def test_a_brand_that_is_a_text_is_its_own_name() -> None:
    assert value("{jsonld: brand.name}", ld({"@type": "Product", "brand": "B"})) == "B"
    assert value("{jsonld: brand.logo}", ld({"@type": "Product", "brand": "B"})) is None


PRICED = '<div class="price"><del>£20.00</del> <ins>£15.00</ins></div>'


@pytest.mark.parametrize(
    ("css", "page", "expected"),
    [
        (".price", PRICED, "15.00"),
        (".price", PRICED.replace("del>", "s>"), "15.00"),
        (".price", f"<div class=price><p>{PRICED}</p></div>", "15.00"),
        (".price del", PRICED, "20.00"),
        ("del", PRICED, "20.00"),
        (".was", "<p class=was><s>£20.00</s></p>", "20.00"),
        (".price", "<div class=price><b>£20.00</b> £15.00</div>", None),
    ],
)
def test_a_crossed_out_amount_is_not_the_price(css: str, page: str, expected: str | None) -> None:
    price = value(f"{{css: '{css}', type: price}}", page)
    assert price == (None if expected is None else Decimal(expected))
    assert "£20.00" in str(value(f"{{css: '{css}'}}", page)), "a text is as it was"


def test_a_product_groups_offers_stand_on_its_variants() -> None:
    group = {
        "@type": "ProductGroup",
        "name": "G",
        "hasVariant": [{"@type": "Product", "offers": {"price": "5.00"}}],
    }
    assert value("{jsonld: offers.price}", ld(group)) == "5.00"


@pytest.mark.parametrize(
    "script",
    [
        "",
        "{",
        "null",
        "[[[]]]",
        '{"@type": "Product"}',
        '{"@type": {"a": 1}}',
        "[" * 100_000,
        '{"@type": "Product", "name": "\\ud800"}',
        '{"@type": "Product", "name": 1e999999}',
        '{"@type": "Product", "name": NaN}',
        '{"@type": "Product", "name": {"a": []}}',
    ],
)
def test_broken_jsonld_is_nothing(script: str) -> None:
    assert value("{jsonld: name}", f'<script type="application/ld+json">{script}</script>') is None


def test_jsonld_that_only_browsers_would_forgive() -> None:
    body = '<script type="application/ld+json">\n//<![CDATA[\n{"@type":"http://schema.org/Book","name":"a\nb"};\n//]]></script>'
    assert value("{jsonld: name}", body) == "a b"


def test_the_base_element_moves_relative_links() -> None:
    field = "{css: 'a::attr(href)', type: url}"
    assert value(field, '<base href="/x/"><a href="y">') == "https://shop.example/x/y"
    assert value(field, '<BaSe href="/x/"><a href="y">') == "https://shop.example/x/y"
    assert (
        value(field, '<base href="javascript:1"><a href="y">')
        == "https://shop.example/catalogue/item_7/y"
    )


def test_the_character_set_is_found() -> None:
    assert value("h1", "<h1>£5</h1>".encode("cp1252")) == "£5"
    assert (
        value("h1", "<h1>ж</h1>".encode("cp1251"), content_type="text/html; charset=windows-1251")
        == "ж"
    )
    assert value("h1", "<h1>a&#0;b&#xD800;c\x00d</h1>") in (
        "a\ufffdb\ufffdcd",
        "abcd",
        "a\ufffdbcd",
        "ab\ufffdcd",
    )


@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.sampled_from(
                [
                    b"<h1>",
                    b"</h1>",
                    b"<p class=price>",
                    b"\x00",
                    b"\xff",
                    b"&#xD800;",
                    b"<!--",
                    b"-->",
                    b'<script type="application/ld+json">',
                    b"</script>",
                    b"{",
                    b'"@type":"Product",',
                    b'"name":"x"',
                    b"}",
                    b"<base href='http://[",
                    b"'>",
                    b"5,00 \xe2\x82\xac",
                    b"<svg>",
                    b"<![CDATA[",
                ]
            ),
            max_size=30,
        ).map(b"".join),
    )
)
def test_no_page_raises_and_all_values_can_be_stored(body: bytes) -> None:
    found = product(
        "a: h1, b: {any: [{jsonld: name}, 'h1::text']}, c: {css: p, type: price}, "
        "d: {css: 'a::attr(href)', type: url, many: true}, "
        "e: {css: p, type: date}, f: {regex: '(.)p'}, g: {css: '*', type: list, split: ' '}",
        body,
    )
    json.dumps([one.data for one in found.products], default=str).encode()
    for one in found.products:
        assert "\\u0000" not in json.dumps(one.data, default=str)
        assert "\\ud800" not in json.dumps(one.data, default=str)


def test_deep_nesting_is_harmless() -> None:
    assert value("h1", "<h1>x</h1>" + "<div>" * 10_000) == "x"
    assert product("a: h1, b: div", "<h1>t</h1>" + "<div>" * 10_000 + "x").complete


def test_extractors_are_kept_by_content() -> None:
    text = f"{START}listing: {{products: a}}\nproduct: {{fields: {{a: h1}}}}\n"
    assert compile_site(load_text(text, "a.yaml")) is compile_site(
        load_text(text + "# x\n", "a.yaml")
    )
    assert compile_site(load_text(text, "a.yaml")) is not compile_site(load_text(text, "b.yaml"))


def test_nothing_is_parsed_that_no_field_needs() -> None:
    document = Document(fetched(PAGE), URL)
    assert "root" not in vars(document)
    assert "decoded" not in vars(document)


def test_a_page_with_none_of_the_fields_is_not_a_product() -> None:
    """A challenge page answers 200; a definition that requires nothing must not store its
    emptiness."""
    fields = "title: h1, here: {css: .stock, type: bool, when: 'yes'}, unit: {css: .unit, default: piece}, id2: {url: '_(.)'}"
    extracted = product(fields, "<p>Are you a robot?</p>")
    assert not extracted.complete
    assert extracted.problems == ["none of the definition's fields is on the page"]
    assert product(fields, "<h1>Kettle</h1>").complete
