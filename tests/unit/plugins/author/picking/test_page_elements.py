"""A page as names and texts: what a browser draws, and the numbers of its elements."""

from __future__ import annotations

import json

import pytest
from selectolax.lexbor import LexborHTMLParser

from scraper.plugins.author.picking.page_elements import (
    DEPTH_MAX,
    ELEMENTS_MAX,
    TEXTS_MAX_CHARS,
    find_element,
    list_elements,
)

PAGE = """<body><script>x</script><h1 class="a" onclick="y">Oak &amp; ash</h1>
<my-price style="z">£ 9<del>£ 12</del></my-price><svg><text>no</text></svg>
<img src="http://e.example/p" alt="A kettle"><p>last"""


def test_only_names_and_texts_of_what_is_seen_are_left() -> None:
    shown = list_elements(LexborHTMLParser(PAGE))
    assert shown == {
        "elements": [
            *([0, "div", 0], [1, "h1", 1], [2, "Oak & ash"], [1, "div", 2], [2, "£ 9"]),
            *([2, "del", 3], [3, "£ 12"], [1, "span", 4], [2, "[picture] A kettle"]),
            *([1, "p", 5], [2, "last"]),
        ],
        "cut": False,
    }


def test_a_number_names_the_same_element_in_another_reading() -> None:
    pages = LexborHTMLParser(PAGE), LexborHTMLParser(PAGE)
    for depth, name, *number in list_elements(pages[0])["elements"]:
        if number:
            element = find_element(pages[1], number[0])
            assert element is not None and (name in ("div", "span") or element.tag == name), depth
    assert find_element(pages[1], 6) is None and find_element(LexborHTMLParser(""), 1) is None


@pytest.mark.parametrize(
    "body",
    [
        "<i>x</i>" * 100_000,
        # Half as deep again as the bound on elements: reading takes time by the depth squared.
        "<div>" * 15_000 + "deep",
        "<p>" + "long " * 1_000_000,
        "".join(f"<p>{'é' * 2500}" for _ in range(1000)),
        "<table><tr>" * 20_000,
        "<ul><li>" * 7_500,
    ],
)
def test_a_huge_page_stays_within_bounds(body: str) -> None:
    shown = list_elements(LexborHTMLParser(body))
    assert len(json.dumps(shown, ensure_ascii=False).encode()) < 3_000_000
    assert max(depth for depth, *_ in shown["elements"]) <= DEPTH_MAX
    texts = [row[1] for row in shown["elements"] if len(row) == 2]
    assert sum(map(len, texts)) <= TEXTS_MAX_CHARS + 2000
    assert len(shown["elements"]) - len(texts) <= ELEMENTS_MAX
