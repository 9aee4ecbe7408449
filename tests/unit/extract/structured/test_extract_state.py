"""`state:` as a source, and `join:`: the JSON that scripts start from, as shops and the hostile
write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from html import escape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper.errors import DefinitionError
from scraper.extract.structured import jsonld, page_state
from scraper.sites.grammar import selectors
from tests.support.growth import assert_linear
from tests.support.machine import examples
from tests.unit.extract.extracting import product, site, value

PAGE = r"""<html><body><h1>Kettle</h1><!-- <script>window.product = {"sku": "OLD"}</script> -->
<script type="application/ld+json">{"@type": "Product", "sku": "LD"}</script>
<script async src="/a.js"></script>
<SCRIPT id="__NEXT_DATA__" type="application/json">{"props": {"pageProps": {"product": {"name": "Kettle > </ pot",
  "price": 1299.50, "stock": 3, "images": [{"src": "/a.jpg"}, {"src": "/b.jpg"}], "none": null}}}}</SCRIPT>
<script>'use strict';var i=1; window.__STATE__ = {"product": {"sku": "K-1", "text": "window.fake = {\"a\": 1}", "new": undefined}};
  window["my.state"]=JSON.parse("{\"sale\": \"1.299,00 €\", \"a\": \"it's\"}"); const single = JSON.parse('{"q": "a \\"b\\" it\'s \x26"}');
  self.broken = {a: 1}; let last = [{"id": 7}]; function f() {return {}}</script>
<script type="text/template">window.template = {"a": "no"}</script>
"""
JSON_SCRIPT = "<script type=application/json>"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{state: __NEXT_DATA__.props.pageProps.product.name}", "Kettle > </ pot"),
        ("{state: props.pageProps.product.price, type: price}", Decimal("1299.50")),
        ("{state: props.pageProps.product.stock, type: int}", 3),
        ("{state: 'props.pageProps.product.images[-1].src', type: url}", "https://shop.example/b.jpg"),
        ("{state: props.pageProps.product.images.src, many: true}", ["/a.jpg", "/b.jpg"]),
        ("{state: props.pageProps.product.none}", None),
        ("{state: product.sku}", "K-1"),
        ("{state: __STATE__.product.sku}", "K-1"),
        ("{state: sale, type: price, decimal: ','}", Decimal("1299.00")),
        ("{state: a}", "it's"),
        ("{state: single.q}", "a \"b\" it's &"),
        ("{state: fake.a}", None),
        ("{state: broken.a}", None),
        ("{state: template.a}", None),
        ("{state: 'last[0].id', type: int}", 7),
        ("{state: sku}", None),
        ("{state: product.sku, regex: '(\\d+)'}", "1"),
        ("{any: [{state: product.gtin}, {state: product.sku}]}", "K-1"),
    ],
)  # fmt: skip
def test_what_scripts_start_from(field: str, expected: object) -> None:
    assert value(field, PAGE) == expected


def test_an_id_may_come_from_state_alone() -> None:
    found = product("n: {state: product.sku}", PAGE, extra="  id: {state: product.sku}")
    assert [item.external_id for item in found.products] == ["K-1"]


def test_a_bad_path_says_how_to_write_one() -> None:
    with pytest.raises(DefinitionError, match=r"x\.state: bad JSON path .*fix"):
        product("x: {state: 'a..b'}", PAGE)


@pytest.mark.parametrize(
    ("script", "size"),
    [
        (lambda size: "<script>" * size, 300_000),
        (lambda size: "<script " + 'a="' * size, 300_000),
        (lambda size: "<!--" * size, 500_000),
        (lambda size: "<script>" + "window.a = {" * size + "</script>", 100_000),
        (lambda size: "<script>" + "window.a = [" + "[" * size + "</script>", 1_000_000),
        (lambda size: "<script>" + "window.a = '" + "\\x" * size + "</script>", 500_000),
        (lambda size: "<script>" + "JSON.parse('" * size + "</script>", 100_000),
        (lambda size: "<script>" + "var a = JSON.parse('\\" * size + "</script>", 60_000),
        (lambda size: "<script>" + "window.a = {};" * size + "</script>", 100_000),
        (lambda size: "<script>" + "window" + " " * size + "</script>", 1_000_000),
        (lambda size: "<script>" + "window.a=[undefined," + '"' * size + "</script>", 1_000_000),
        (lambda size: JSON_SCRIPT + '{"product":' * size + "</script>", 100_000),
        (
            lambda size: JSON_SCRIPT + '{"product":' + "[" * size + "]" * size + "}</script>",
            900,
        ),
        (lambda size: f"{JSON_SCRIPT}{{}}</script>" * size, 30_000),
    ],
)
def test_hostile_pages_give_nothing_in_linear_time(script: Callable[[int], str], size: int) -> None:
    def read_state(page: str) -> None:
        assert product("x: {state: product.name}, y: {css: h1, default: b}", page).products == []

    assert_linear(script, read_state, size)


def test_lists_deeper_than_can_be_walked_hold_nothing() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    path = selectors.parse_jsonld("offers.price")
    assert list(jsonld.find_texts_in_documents([{"a": deep}, {"a": {"b": "1"}}], ("a", "b"))) == [
        "1"
    ]
    assert list(jsonld.find_texts([{"@type": "Product", "offers": deep}], path, every=False)) == []


def test_an_attribute_that_holds_an_object_is_a_document() -> None:
    data = escape('{"component": "Show", "props": {"product": {"name": "Oak \\u00e9"}}}')
    page = f'<div id=app data-page="{data}"></div><i data-x=\'{{"short": 1}}\'></i>'.encode()
    (by_name, only) = page_state.read_documents(page)
    assert by_name == {"data-page": only}
    assert value("{state: data-page.props.product.name}", page.decode()) == "Oak é"


def test_a_cache_of_entities_has_its_queries_answers_by_their_names() -> None:
    state = {
        "ROOT_QUERY": {'product({"id":1})': {"__ref": "Product:1"}, "me": None},
        "Product:2": {"name": "Elm"},
        "Product:1": {"name": "Oak", 'price({"in":"EUR"})': "9.50", "like": {"__ref": "Product:1"}},
    }
    page = f"<script>window.__APOLLO_STATE__ = {json.dumps(state)}</script>"
    assert value("{state: __APOLLO_STATE__.product.name}", page) == "Oak"
    assert value("{state: __APOLLO_STATE__.product.price}", page) == "9.50"
    nested = (
        f'<script id=n type="application/json">{json.dumps({"props": {"apollo": state}})}</script>'
    )
    assert value("{state: n.props.apollo.product.name}", nested) == "Oak"


PARTS = [
    *(b"<script>", b"<script type='application/json' id=x>", b"</script>", b"window.a = ", b'"'),
    *(b"{", b"}", b"[", b"]", b"'", b"\\", b'{"a": 1}', b"JSON.parse(", b"<!--", b"-->", b"undefined"),
    *(b"\xff", b"\\x4", b"1e999", b"NaN", b",", b":"),
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=20).map(b"".join))
@settings(max_examples=examples(400))
def test_nothing_makes_it_raise(source: bytes) -> None:
    for document in page_state.read_documents(b"<script>window.a = " + source):
        assert isinstance(document, dict | list)


LISTED = "<p class=s>Oak</p><p class=s> </p><p class=s>Steel</p><b><i>19</i><sup>99</sup></b>"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{css: .s, join: ', '}", "Oak, Steel"),
        ("{css: .s, join: ''}", "OakSteel"),
        ("{xpath: '//p', join: '; '}", "Oak; Steel"),
        ("{css: .s, regex: '^(\\w)', join: '+'}", "O+S"),
        ("{css: 'b > *', join: '.', type: price}", Decimal("19.99")),
        ("{css: .none, join: ', '}", None),
        ("{any: [{css: .none}, {css: .s, join: ' '}]}", "Oak Steel"),
        ("{any: [.s, b], join: ' '}", "Oak Steel"),
    ],
)
def test_join_makes_one_text_of_all_matches(field: str, expected: object) -> None:
    assert value(field, LISTED) == expected


@pytest.mark.parametrize("field", ["{css: p, join: ' ', many: true}", "{css: p, join: ' ', type: list}"])  # fmt: skip
def test_join_and_a_list_contradict_each_other(field: str) -> None:
    with pytest.raises(DefinitionError, match=r"join: join makes one text .*fix"):
        site(
            f"start: https://shop.example/\nlisting: {{products: a}}\nproduct: {{fields: {{x: {field}}}}}"
        )


def test_a_cache_of_lists_in_lists_has_none_below_some_levels() -> None:
    lists = "[" * 900 + "]" * 900
    page = f'<script>window.__APOLLO_STATE__ = {{"ROOT_QUERY": {{"a": {lists}}}}}</script>'
    assert value("{state: __APOLLO_STATE__.a.name}", page) is None
