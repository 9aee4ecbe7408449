"""Parses the CSS of definitions once: into a selector for lexbor, and what to take from each
element. Pure.

In addition to browsers' CSS it supports the extensions that Scrapy users know: `::text`,
`::attr(name)` and `:contains("text")`. Every function raises `ValueError` with a sentence that
names the mistake and the fix. A selector that was parsed never fails later because of its syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeVar

import cssselect
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

T = TypeVar("T")
_ID_OF, _PARENT_OF = attrgetter("mem_id"), attrgetter("parent")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\\.|::|.', re.DOTALL)
_OPENING, _CLOSING = frozenset("[("), frozenset(")]")
_PSEUDO_ELEMENT = re.compile(r"::(?:(text)|attr\(\s*([^\s()\"']+)\s*\))\s*").fullmatch
_CONTAINS = re.compile(r":contains\(\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\w-]+)\s*\)")
# A text node of the element, or of an element inside, holds the text.
_HOLDS = r":is(:lexbor-contains({0}), :has(:lexbor-contains({0})))"
_COMBINATORS = frozenset(">+~,")
# Strings, and positions among siblings, do not search other elements.
_PLAIN = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|:nth-[a-z-]+\((?:[^()o]|odd)*\)', re.DOTALL
)
_LOOKING = re.compile(
    r":has\(|\bof\b|(?<![\s>+~,(])\s*[>+~]\s*(?=\S)|(?<=[\w)\]*])\s+(?=[\w.#:\[*])"
)
# What lexbor walks over siblings or descendants for, at each element.
_SEARCHING = re.compile(r"~|\+|:nth-|-of-type|-child|:has\(|:empty|lexbor-contains")
_ANY_WITHIN = re.compile(r"(?<=[^\s>+~])\s+\*$")
_NEEDS_ELEMENT = re.compile(r"(?:^|[>+~])\s*$")
_EMPTY = LexborHTMLParser("")
_FIXES = (
    ("!=", '`[a!="b"]` is written `:not([a="b"])`'),
    (":scope", "`:scope` is not needed: leave it out"),
    (":lang(", '`:lang(de)` is written `[lang|="de"]`'),
    (":first", "jQuery's `:first` is not needed: the first match counts"),
    ("@", "an attribute is read by `img::attr(src)`"),
    (":eq(", "jQuery's `:eq(1)` is written `:nth-child(2)` or `:nth-of-type(2)`"),
    (
        ":visible",
        "the page's HTML does not say whether an element is visible: leave `:visible` out",
    ),
)


class CssSelector(NamedTuple):
    """lexbor runs `query`, then each compound of `inside` within the elements before. The result is
    each element's `attribute`, its own `text` nodes, or the element itself. `slow`: a page can make
    the selector cubic or worse. `not_linear`: or quadratic."""

    query: str
    inside: tuple[str, ...] = ()
    attribute: str | None = None
    text: bool = False
    slow: bool = False
    not_linear: bool = False

    @property
    def selects_elements(self) -> bool:
        return self.attribute is None and not self.text

    def select_all(
        self, page: LexborHTMLParser | LexborNode, outer: list[LexborNode] | None = None
    ) -> list[LexborNode]:
        """Returns all matches in document order, without repeats. Linear in the page unless the
        selector is `slow`: lexbor itself would try each ancestor for each part of `a b c`.
        `outer`: the matches of `query`, if they are known."""
        elements = page.css(self.query) if outer is None else outer
        # For a list, lexbor returns an element once for each selector that it matches.
        if "," in self.query and len(elements) > 1:
            elements = list({element.mem_id: element for element in elements}.values())
        for compound in self.inside:
            elements = [
                inner
                for outer in keep_outermost(elements, _ID_OF, _PARENT_OF)
                for inner in outer.css(compound)
                if inner.mem_id != outer.mem_id
            ]
        return elements

    def select_first(
        self, page: LexborHTMLParser | LexborNode, outer: list[LexborNode] | None = None
    ) -> LexborNode | None:
        """Returns the first match. `outer` as in `select_all`."""
        element = page.css_first(self.query) if outer is None else next(iter(outer), None)
        for compound in self.inside:
            around = element
            if around is None:
                return None
            element = around.css_first(compound)
            if element is not None and element.mem_id == around.mem_id:
                element = next(iter(around.css(compound)[1:]), None)
        if element is None and self.inside:
            # The first outer element has no match inside.
            return next(iter(self.select_all(page, outer)), None)
        return element


def keep_outermost(
    elements: list[T], id_of: Callable[[T], Hashable], parent_of: Callable[[T], T | None]
) -> list[T]:
    """Returns the elements that are not inside another one. They must be in document order."""
    if len(elements) < 2:
        return elements
    outermost: list[T] = []
    within, without = set[Hashable](), set[Hashable]()
    for element in elements:
        way: list[Hashable] = []
        node: T | None = element
        while node is not None and (key := id_of(node)) not in within and key not in without:
            way.append(key)
            node = parent_of(node)
        if node is not None and key in within:
            within.update(way)
        else:
            # The ancestors of an element are checked only once.
            without.update(way[1:])
            within.add(id_of(element))
            outermost.append(element)
    return outermost


@lru_cache(maxsize=4096)
def parse_css(css: str) -> CssSelector:
    """Parses CSS with `::text` or `::attr(name)`; without either it selects elements."""
    if not css.strip():
        raise ValueError("the CSS selector is empty (fix: for example `h1::text`)")
    parts = [_split_pseudo_element(css, part) for part in _split_list(css)]
    if len({pseudo for _, pseudo in parts}) > 1:
        raise ValueError(
            f"bad CSS selector {css!r}: its parts read different things from an element "
            f"(fix: write each part as an entry of `any:`)"
        )
    query = _CONTAINS.sub(_expand_contains, ", ".join(element for element, _ in parts))
    try:
        _EMPTY.css(query)
    except SelectolaxError:
        raise ValueError(f"bad CSS selector {css!r}: {_explain_error(css)}") from None
    match = _PSEUDO_ELEMENT(parts[0][1])
    attribute, text = (
        (match[2] and match[2].lower(), match[1] is not None) if match else ("", False)
    )
    head, inside = _split_descendants(query) if len(parts) == 1 else (query, ())
    slow = any(_is_slow(part) for part in _split_list(head))
    not_linear = slow or _SEARCHING.search(query) is not None
    return CssSelector(head, inside, attribute or None, text, slow, not_linear)


def check_css_of_elements(css: str) -> CssSelector:
    """Parses CSS that must select elements, not their texts or attributes."""
    selector = parse_css(css)
    if not selector.selects_elements:
        raise ValueError(
            f"bad CSS selector {css!r}: it must select elements (fix: remove `::` and what follows)"
        )
    return selector


def _split_descendants(query: str) -> tuple[str, tuple[str, ...]]:
    """Splits `a > b c d` into `a > b`, and the compounds `c` and `d` to select inside."""
    compounds, between = _split_compounds(query)
    if "," in between:
        return query, ()
    last = max((n for n, sign in enumerate(between) if sign != " "), default=-1) + 1
    head = compounds[0]
    for sign, compound in zip(between[:last], compounds[1 : last + 1], strict=True):
        head += f" {compound}" if sign == " " else f" {sign} {compound}"
    return head, tuple(compounds[last + 1 :])


def _split_compounds(query: str) -> tuple[list[str], list[str]]:
    """Returns the compounds of a selector, and the combinators between them: ` > + ~ ,`."""
    compounds = [""]
    between = []
    depth = 0
    sign = ""
    for piece in _PIECE.findall(query.strip()):
        if depth == 0 and (piece.isspace() or piece in _COMBINATORS):
            sign = sign.strip() or piece
            continue
        if sign:
            between.append(" " if sign.isspace() else sign)
            compounds.append("")
            sign = ""
        depth += (piece in _OPENING) - (piece in _CLOSING)
        compounds[-1] += piece
    return compounds, between


def _is_slow(part: str) -> bool:
    """Returns whether more than one part is searched among ancestors or siblings: lexbor tries all
    combinations."""
    compounds, between = _split_compounds(part)
    ways = sum(sign in (" ", "~") for sign in between)
    return ways + sum(len(_LOOKING.findall(_PLAIN.sub("", part))) for part in compounds) > 1


def _split_list(css: str) -> list[str]:
    """Splits a list of selectors at its commas."""
    parts = [""]
    depth = 0
    open_quote = False
    for piece in _PIECE.findall(css):
        depth += (piece in _OPENING) - (piece in _CLOSING)
        # A closed quote is part of a longer piece.
        open_quote = open_quote or piece in ("'", '"')
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    if depth or open_quote:
        raise ValueError(
            f"bad CSS selector {css!r}: a bracket or a quote is not closed (fix: close it)"
        )
    return parts


def _split_pseudo_element(css: str, part: str) -> tuple[str, str]:
    """Splits off the pseudo-element. `h1 ::text` reads the text nodes of `h1` and of all elements
    inside."""
    before, depth = "", 0
    pieces = _PIECE.findall(part.strip())
    for number, piece in enumerate(pieces):
        depth += (piece in _OPENING) - (piece in _CLOSING)
        if piece != "::" or depth:
            before += piece
            continue
        pseudo = "".join(pieces[number:])
        if not _PSEUDO_ELEMENT(pseudo):
            raise ValueError(
                f"bad CSS selector {css!r}: {pseudo!r} is not supported (fix: the only "
                f"pseudo-elements are `::text` and `::attr(name)`, at the end)"
            )
        # The CSS `h1 *::text` means the same, as in parsel.
        before = _ANY_WITHIN.sub(" ", before)
        if _NEEDS_ELEMENT.search(before):
            before = f"{before}*"
        elif before[-1].isspace():
            before = f"{before.rstrip()}, {before}*"
        return before, pseudo.rstrip()
    return before, ""


def _expand_contains(match: re.Match[str]) -> str:
    word = match[1]
    return _HOLDS.format(word if word[0] in "\"'" else f'"{word}"')


def _explain_error(css: str) -> str:
    """Explains what is wrong with a selector, because lexbor only says that it is."""
    try:
        cssselect.parse(css)
    except cssselect.SelectorError as error:
        reason = " ".join(str(error).split()).rstrip(".")
    else:
        reason = "this selector is not supported"
    if css.lstrip().startswith(("/", "(")) or "//" in css:
        return f"{reason} (fix: this looks like XPath: write `xpath:` instead of `css:`)"
    for sign, fix in _FIXES:
        if sign in css:
            return f"{reason} (fix: {fix})"
    return (
        f"{reason} (fix: try it in a browser's console with document.querySelectorAll; quote it "
        f"in YAML if it starts with # or [)"
    )
