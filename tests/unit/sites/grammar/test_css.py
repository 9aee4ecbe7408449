"""CSS as definitions write it: what it selects, compared with parsel on the same document."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from parsel import Selector
from selectolax.lexbor import LexborHTMLParser

from scraper.extract.text import text_nodes, whole_text
from scraper.sites.grammar.css import CssSelector, parse_css
from scraper.sites.grammar.css_walk import CssWalk

NAMES = ["a", "b", "c", "ab", "A", "é", "b-c"]
SPACES = [" ", "  ", "\t", "\n"]
# Elements that HTML lets lie within each other, so that both parsers make one document of them.
TAGS = ["div", "section", "span", "b", "i"]
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
        st.sampled_from(["div", "section"]), st.none() | class_value, st.lists(inner, max_size=3)
    ).map(element),
    max_leaves=25,
)
compound = st.tuples(
    st.sampled_from(["", "div", "SECTION", "*"]),
    st.lists(st.sampled_from(NAMES).map(lambda name: f".{name}"), max_size=2).map("".join),
    st.sampled_from([*[""] * 5, "[data-x]", "[data-x='2']", ":first-child", ":nth-child(2)",
                     ":not(.a)", ":last-child", ":empty", ":contains('y')"]),
).map("".join).filter(bool)  # fmt: skip
combined = st.lists(compound, min_size=1, max_size=3).flatmap(
    lambda compounds: st.lists(
        st.sampled_from([" ", " > ", " + ", " ~ "]),
        min_size=len(compounds) - 1,
        max_size=len(compounds) - 1,
    ).map(lambda between: "".join(map("".join, zip(compounds, [*between, ""], strict=True))))
)
PSEUDOS = ["", "::attr(data-x)", "::text", " ::text"]


def taken(selector: CssSelector, page: LexborHTMLParser) -> list[str]:
    elements = selector.select_all(page)
    if selector.text:
        return list(text_nodes(elements))
    if selector.attribute is not None:
        values = (element.attributes.get(selector.attribute) for element in elements)
        return [value for value in values if value is not None]
    return [whole_text(element) for element in elements]


@given(
    st.lists(tree, max_size=4).map("".join),
    st.lists(combined, min_size=1, max_size=2),
    st.sampled_from(PSEUDOS),
)
@example("<div class='a'><div class='a'><div class='b'>x</div></div></div>", [".a .a .b"], "")
@example("<div class='a'>x<div><div class='a'>y</div></div>z</div>", [".a"], "::text")
@example("<div class='a'>x<!-- c -->y<b>z</b>w</div><div class='a'>v</div>", [".a"], "::text")
@example("<div><div>x</div>y</div>", ["div", "div div"], "::text")
@example("<div>x</div>z", ["*"], "::text")
@example("<div>x</div>z", ["div", "* *"], "::attr(data-x)")
def test_it_selects_what_parsel_selects(html: str, parts: list[str], pseudo: str) -> None:
    # parsel takes the end of such a path, "following-sibling::*/*", for that of " ::text".
    assume(pseudo != "::text" or not any(part.endswith(" ~ * > *") for part in parts))
    page = LexborHTMLParser(f"<!doctype html><body><main>{html}</main>")
    css = ", ".join(f"main {part}{pseudo}" for part in parts)
    beside = Selector(
        f"<!doctype html><html><head></head><body><main>{html}</main></body></html>"
    ).css(css)
    expected = beside.getall() if pseudo else [whole_text(selected.root) for selected in beside]
    assert taken(parse_css(css), page) == expected


@pytest.mark.parametrize(
    ("css", "query", "attribute", "text"),
    [
        ("h1", "h1", None, False),
        ("a::attr( href )", "a", "href", False),
        ("a ::attr(HREF)", "a, a *", "href", False),
        ("::text", "*", None, True),
        ("td > ::text", "td > *", None, True),
        ("h1::text, h2 ::text", "h1, h2, h2 *", None, True),
        ('[title="a::text, b"]', '[title="a::text, b"]', None, False),
    ],
)
def test_what_follows_the_selector(css: str, query: str, attribute: str | None, text: bool) -> None:
    selector = parse_css(css)
    assert (selector.query, selector.attribute, selector.text) == (query, attribute, text)


@pytest.mark.parametrize(
    ("css", "sentence"),
    [
        ("", "is empty"),
        ("p[", "close it"),
        ("p > > b", "Expected"),
        ("p::before", "the only pseudo-elements"),
        ("p::text b", "the only pseudo-elements"),
        ("a::text, b", "an entry of `any:`"),
        ("//h1", "looks like XPath"),
        ('a[b!="c"]', ":not("),
        ("p:eq(1)", ":nth-of-type(2)"),
        ("p:first", "the first match counts"),
        (":scope > p", "leave it out"),
        ("p:lang(de)", "[lang|="),
        ("p:visible", "leave `:visible` out"),
        ("p:nonsense", "querySelectorAll"),
    ],
)
def test_a_selector_that_cannot_be_read_says_how_to_fix_it(css: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="fix: ") as raised:
        parse_css(css)
    assert sentence in str(raised.value)


def test_a_label_finds_the_value_next_to_it() -> None:
    page = LexborHTMLParser("<dl><dt><b>Weight</b>:</dt><dd>2 kg</dd><dt>Stock</dt><dd>7</dd></dl>")
    assert taken(parse_css('dt:contains("Weight") + dd'), page) == ["2 kg"]
    assert taken(parse_css("dt:contains(Stock) + dd::text"), page) == ["7"]


def test_the_document_is_a_browsers() -> None:
    page = LexborHTMLParser("<table><tr><td>1<td>2</table><p>a<p>b")
    assert taken(parse_css("table > tbody > tr > td"), page) == ["1", "2"]
    assert taken(parse_css("body > p"), page) == ["a", "b"]


def test_of_a_list_each_element_comes_once() -> None:
    page = LexborHTMLParser("<p class=a>1<p class='a b'>2<p>3")
    assert taken(parse_css(".b, p, .a"), page) == ["1", "2", "3"]


@given(
    st.sampled_from(["", "<!doctype html>"]),
    st.lists(tree, max_size=4).map("".join),
    st.lists(
        st.sampled_from([".a", ".A", ".b .a", "div.b", "section.a::attr(data-x)", ".b-c div",
                         "main", "h1", "table td", "foreignobject.a", ".a, .b", "div > .a", "a"]),
        unique=True, max_size=7,
    ),
)  # fmt: skip
@example("", "<p class=a>x<p class=A>y", [".a", "h1"])
@example(
    "", "<main><svg><foreignObject class='a b'>x</foreignObject></svg>", ["foreignobject.a", "main"]
)
@example("<!doctype html>", "<div class='a\u00a0b'><b class='b a\fb a'>x", [".a", "div.b"])
def test_one_walk_finds_what_each_selector_finds(start: str, body: str, queries: list[str]) -> None:
    page = LexborHTMLParser(start + body)
    selectors = [parse_css(css) for css in queries]
    walked = CssWalk(selectors).find_elements(page)
    for css in selectors:
        outer = walked.get(css.query)
        assert outer is None or [e.mem_id for e in outer] == [e.mem_id for e in page.css(css.query)]
        alone, first = css.select_all(page), css.select_first(page)
        assert [e.mem_id for e in css.select_all(page, outer)] == [e.mem_id for e in alone]
        same = css.select_first(page, outer)
        assert (same and same.mem_id) == (first and first.mem_id)


def test_a_walk_takes_simple_selectors_alone() -> None:
    selectors = [parse_css(css) for css in (".a", "h1 b", "p", ".a > b", "title")]
    page = LexborHTMLParser("<!doctype html><h1 class=a><b>x</b></h1><p>")
    assert {query: len(of) for query, of in CssWalk(selectors).find_elements(page).items()} == {
        ".a": 1,
        "h1": 1,
    }
    assert CssWalk(selectors).find_elements(LexborHTMLParser("<h1><p class=A>")) == {}
    assert CssWalk(selectors[:1]).find_elements(page) == {}
