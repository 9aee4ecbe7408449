"""What `scraper try` says of a page: the source of each value, what other sources say, the nearest
selector."""

from __future__ import annotations

import sys
import types
from decimal import Decimal

import pytest
from pydantic import ValidationError

from scraper.plugins.author.discovery.fields.standard import is_private, standard_definition
from scraper.plugins.author.discovery.trial import (
    FieldTrial,
    match_source,
    parse_source,
    try_listing,
    try_product,
)
from scraper.sites.loader import load_text
from tests.unit.extract.extracting import URL, fetched

PAGE = """
<h1>Kettle</h1><p class="price">19,90 €</p><p class="old">?</p>
<script type="application/ld+json">
{"@type": "Product", "name": "Kettle 1.7 l", "offers": {"price": "19.9", "priceCurrency": "EUR"}}
</script>
"""


def fields(definition: str, body: str = PAGE) -> dict[str, FieldTrial]:
    text = f"start: https://shop.example/\nlisting: {{products: a}}\nproduct: {{fields: {{{definition}}}}}"
    trial = try_product(load_text(text, "shop.yaml"), fetched(body), URL, ())
    return {field.name: field for field in trial.fields}


def test_the_source_that_gave_the_value_is_named_and_the_others_after_it() -> None:
    title = fields('x: {any: [{css: ".no"}, {css: h1}, {jsonld: name}]}')["x"]
    assert (title.value, title.source) == ("Kettle", "css 'h1'")
    assert [(rival.source, rival.value) for rival in title.rivals] == [
        ("jsonld 'name'", "Kettle 1.7 l")
    ]


def test_a_price_has_its_currency_in_a_row_of_its_own() -> None:
    rows = fields("p: {css: .price, type: price}")
    assert (rows["p"].value, rows["p_currency"].value) == (Decimal("19.90"), "EUR")


def test_a_missing_and_a_mistyped_field_say_so() -> None:
    rows = fields("a: {css: .no, required: true}, b: {css: .old, type: price}, t: h1")
    assert rows["a"].value is None and "nothing matched" in rows["a"].problems[0]
    assert rows["b"].value is None and "is not a price" in rows["b"].problems[0]


def test_a_default_is_nobodys_value() -> None:
    row = fields("a: {css: .no, default: none}, t: h1")["a"]
    assert (row.value, row.source) == ("none", "")


def test_what_says_no_is_a_value() -> None:
    row = fields("a: {css: .no, type: bool, when: yes}, t: h1")["a"]
    assert row.value is False


def test_a_functions_fields_are_those_of_the_product_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(page: object) -> list[dict[str, str]]:
        return [{"id": name, "title": name.lower()} for name in "AB"]

    module = types.ModuleType("shop_under_test")
    vars(module)["read"] = read
    read.__module__ = "shop_under_test"
    monkeypatch.setitem(sys.modules, "shop_under_test", module)
    text = (
        "start: https://shop.example/\nlisting: {products: a}\n"
        "product: {function: 'shop_under_test:read'}"
    )
    site = load_text(text, "shop.yaml")
    for asked, shown in ((None, "A"), ("B", "B"), ("gone", "A")):
        trial = try_product(site, fetched(PAGE), URL, ("shop_under_test",), asked)
        assert trial.external_id == shown
        assert [(row.name, row.value) for row in trial.fields] == [("title", shown.lower())]


def test_problems_of_the_page_are_not_those_of_its_fields() -> None:
    text = (
        "start: https://shop.example/\nlisting: {products: a}\n"
        "product: {id: {css: .no}, fields: {a: {css: .no, required: true}}}"
    )
    trial = try_product(load_text(text, "shop.yaml"), fetched(PAGE), URL, ())
    assert not trial.complete and trial.external_id is None
    assert any(problem.startswith("id:") for problem in trial.problems)
    assert not any(problem.startswith("a:") for problem in trial.problems)


def test_the_links_of_a_listing_page() -> None:
    text = "start: https://shop.example/\nlisting: {products: .p, listings: .c}\nproduct: {fields: {a: b}}"
    page = fetched('<a class="p" href="/p/1">1</a><a class="c" href="/c">c</a>')
    trial = try_listing(load_text(text, "shop.yaml"), page, URL, ())
    assert trial.products == ("https://shop.example/p/1",)
    assert trial.listings == ("https://shop.example/c",)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("h1", ("Kettle",)),
        ("//h1", ("Kettle",)),
        ("jsonld:offers.price", ("19.9",)),
        ("regex:(Ket+)le", ("Kett", "Kett")),
    ],
)
def test_a_selector_alone_gives_its_matches(text: str, matches: tuple[str, ...]) -> None:
    assert match_source(parse_source(text), fetched(PAGE)).matches == matches


def test_where_a_selector_matches_nothing_its_longest_part_that_does_is_named() -> None:
    result = match_source(parse_source("p.price > b.amount"), fetched(PAGE))
    assert (result.matches, result.nearest) == ((), "p.price")


def test_a_wrong_selector_is_refused() -> None:
    with pytest.raises(ValidationError):
        parse_source("h1[")


def test_a_page_of_a_shop_that_has_no_definition_says_what_it_says_for_machines() -> None:
    trial = try_product(standard_definition(URL), fetched(PAGE), URL, ())
    values = {field.name: field.value for field in trial.fields}
    assert (values["title"], values["price"], values["price_currency"]) == (
        "Kettle 1.7 l",
        Decimal("19.9"),
        "EUR",
    )


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8800/", True),
        ("http://localhost/", True),
        ("http://[::1]:80/", True),
        ("http://10.1.2.3/", True),
        ("http://1.1.1.1/", False),
        ("https://shop.example/127.0.0.1", False),
        ("https://127.0.0.1.shop.example/", False),
    ],
)
def test_only_an_address_that_says_so_is_private(url: str, private: bool) -> None:
    assert is_private(url) is private
