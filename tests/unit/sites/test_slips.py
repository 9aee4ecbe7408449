"""Mistakes of newcomers: each error names its place and a fix that works."""

from __future__ import annotations

import pytest

from scraper.errors import DefinitionError
from scraper.sites import loader
from scraper.sites.grammar import yaml12

TEXT = """name: shop
start: http://shop.example/
listing: {products: a.p}
product: {fields: {name: h1}}
"""


@pytest.mark.parametrize(
    ("right", "slip", "line", "fix"),
    [
        ("start: http://shop.example/", "start: [http://a.example/?page=1]", 2, "quote a value"),
        ("products: a.p", "products: #main a", 3, "quote what starts with # in line 3"),
        ("name: h1}", "name: h1, sku: #sku}", 4, "quote what starts with # in line 4"),
        ("products: a.p", "products: a[href*=/p/]", 3, "quote a value"),
        ("name: h1}", "name: h1, p: {css: .p, type: number}}", 4, "`decimal`"),
        ("name: h1}", "name: h1, p: {css: .p, type: Boolean}}", 4, "`bool`"),
        ("name: h1}", "name: h1, p: {css: .p, type: money}}", 4, "`price`"),
        ("name: h1}", "name: h1, p: {css: .p, type: thing}}", 4, "one of text, int"),
        ("name: h1}", "name: h1, image: img@src}", 4, "`img::attr(src)`"),
        ("listing:", "every: day\nlisting:", 3, "did you mean `schedule`?"),
    ],
)
def test_slips(right: str, slip: str, line: int, fix: str) -> None:
    assert loader.load_text(TEXT, "shop.yaml")
    with pytest.raises(DefinitionError) as raised:
        loader.load_text(TEXT.replace(right, slip), "shop.yaml")
    told = str(raised.value)
    assert fix in told and any(f"shop.yaml:{at}:" in told for at in (line, line + 1)), told


def test_numbers_are_decimal() -> None:
    assert yaml12.parse("a: 024\nb: 08\nc: -010").data == {"a": 24, "b": 8, "c": -10}


def test_an_address_on_ones_own_machine_is_named_before_it_is_asked_for() -> None:
    own = TEXT.replace("shop.example/", "127.0.0.1:8000/")
    (told,) = [
        text
        for text in loader.find_warnings(loader.load_text(own, "s.yaml"))
        if "own network" in text
    ]
    assert told.startswith("http://127.0.0.1:8000/") and "`allow_private: true`" in told
    for text in (TEXT, own + "allow_private: true\n"):
        site = loader.load_text(text, "shop.yaml")
        assert not any("own network" in warning for warning in loader.find_warnings(site))
