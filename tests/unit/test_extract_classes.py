"""The class index against XPath: the same elements in the same order, on trees of all kinds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scraper.extract import classes
from scraper.sites import selectors
from scraper.sites.decode import parse_html

NAMES = ["a", "b", "c", "ab", "A", "é", "b-c"]
SPACES = [" ", "  ", "\t", "\n", "\x0c", "\xa0", "\u2003"]
TAGS = ["div", "p", "span", "td", "DIV"]
class_value = st.lists(st.one_of(st.sampled_from(NAMES), st.sampled_from(SPACES)), max_size=5).map("".join)


def element(parts: tuple[str, str | None, list[str]]) -> str:
    tag, value, inner = parts
    attributes = "" if value is None else f" class='{value}' data-x='{len(value)}'"
    return f"<{tag}{attributes}>x{''.join(inner)}</{tag}>"


tree = st.recursive(
    st.just(""),
    lambda inner: st.tuples(st.sampled_from(TAGS), st.none() | class_value, st.lists(inner, max_size=3)).map(element),
    max_leaves=25,
)
compound = st.tuples(
    st.sampled_from(["", "div", "P", "span"]), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)
)
some_css = st.lists(compound.map(lambda c: c[0] + "".join(f".{name}" for name in c[1])), min_size=1, max_size=3)


@given(st.lists(tree, max_size=4).map("".join), some_css.map(" ".join), st.sampled_from(["", "::attr(data-x)"]))
@example("<div class='a'><div class='a'><p class='b'>x</p></div></div>", ".a .a .b", "")
def test_the_index_finds_what_xpath_finds(html: str, css: str, pseudo: str) -> None:
    root = parse_html(f"<body>{html}</body>".encode())
    path = classes.class_path(css + pseudo)
    assert path is not None
    assert classes.find(path, classes.index_of(root)) == selectors.compile_css(css + pseudo)(root)


@pytest.mark.parametrize(
    "css",
    [
        "h1",
        ".a h1",
        "#x .a",
        ".a > .b",
        ".a + .b",
        ".a, .b",
        ".a::text",
        "a[href].b",
        ".a:first-child",
        "*|p.a",
        ".a:not(.b)",
        "",
    ],
)
def test_other_selectors_are_left_to_xpath(css: str) -> None:
    assert classes.class_path(css) is None


def test_a_page_made_to_be_slow_is_left_to_xpath() -> None:
    deep = "<i class='a'></i>" + "<div>" * 1000 + "<p class='b'>x</p>" * 200
    path = classes.class_path(".a .b")
    assert path is not None
    assert classes.find(path, classes.index_of(parse_html(deep.encode()))) is None
