"""The index against XPath: the same elements and texts in the same order, on trees of all kinds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scraper.extract.css_index import CssIndex, TooLong, css_path
from scraper.rules.decoding import parse_html
from scraper.sites.grammar import selectors

NAMES = ["a", "b", "c", "ab", "A", "é", "b-c"]
SPACES = [" ", "  ", "\t", "\n", "\x0c", "\xa0", "\u2003"]
TAGS = ["div", "p", "span", "td", "DIV"]
class_value = st.lists(st.one_of(st.sampled_from(NAMES), st.sampled_from(SPACES)), max_size=5).map(
    "".join
)


def element(parts: tuple[str, str | None, list[str]]) -> str:
    tag, value, inner = parts
    attributes = "" if value is None else f" class='{value}' data-x='{len(value)}'"
    return f"<{tag}{attributes}>x{'<!-- c -->y'.join(inner)}</{tag}>z"


tree = st.recursive(
    st.just(""),
    lambda inner: st.tuples(
        st.sampled_from(TAGS), st.none() | class_value, st.lists(inner, max_size=3)
    ).map(element),
    max_leaves=25,
)
compound = st.tuples(
    st.sampled_from(["", "div", "P", "span"]), st.lists(st.sampled_from(NAMES), max_size=2)
).filter(any)
some_css = st.lists(
    compound.map(lambda c: c[0] + "".join(f".{name}" for name in c[1])), min_size=1, max_size=3
)
PSEUDOS = ["", "::attr(data-x)", "::text"]


@given(st.lists(tree, max_size=4).map("".join), some_css.map(" ".join), st.sampled_from(PSEUDOS))
@example("<div class='a'><div class='a'><p class='b'>x</p></div></div>", ".a .a .b", "")
@example("<div class='a'>x<div><p class='a'>y</p></div>z</div>", ".a", "::text")
@example("<p class='a'>x<!-- c -->y<b>z</b>w</p><p class='a'>v</p>", "p.a", "::text")
@example("<div><div><p>x</p></div></div>", "div div p", "")
def test_the_index_finds_what_xpath_finds(html: str, css: str, pseudo: str) -> None:
    root = parse_html(f"<body>{html}</body>".encode())
    path = css_path(css + pseudo)
    assert path is not None
    by_xpath = selectors.compile_css(css + pseudo)(root)
    found: list[object] = []
    try:
        found.extend(path.found(CssIndex(root)))
    except TooLong:
        # what came before it stays in the list
        assert pseudo == "::text" and found == by_xpath[: len(found)], (
            "elements in each other, which XPath sorts out"
        )
    else:
        assert found == by_xpath


def test_texts_of_elements_side_by_side_need_no_xpath() -> None:
    root = parse_html(b"<p class=a>one<b>bold</b>two</p><p class=a><i></i>three</p>")
    path = css_path(".a::text")
    assert path is not None and list(path.found(CssIndex(root))) == ["one", "two", "three"]


def test_who_wants_the_first_looks_no_further() -> None:
    deep = "<div class='a'><p class='b'>x</p></div>" + "<div>" * 1000 + "<p class='b'>x</p>" * 200
    path = css_path(".a .b")
    assert path is not None
    assert next(iter(path.found(CssIndex(parse_html(deep.encode()))))).text == "x"


@pytest.mark.parametrize(
    "css",
    [
        "#x .a",
        ".a > .b",
        ".a + .b",
        ".a, .b",
        "*",
        ".a *",
        "a[href].b",
        ".a:first-child",
        "*|p.a",
        ".a:not(.b)",
        "",
    ],
)
def test_other_selectors_are_left_to_xpath(css: str) -> None:
    assert css_path(css) is None


@pytest.mark.parametrize("css", [".a .b", ".b::text"])
def test_a_page_made_to_be_slow_is_left_to_xpath(css: str) -> None:
    deep = "<i class='a'></i>" + "<div>" * 1000 + "<p class='b'>x</p>" * 200
    path = css_path(css)
    assert path is not None
    with pytest.raises(TooLong):
        list(path.found(CssIndex(parse_html(deep.encode()))))
