"""CSS as it is written in a definition, read once: a selector for lexbor, and what to take of each
element. Pure.

Beside the CSS of browsers it knows what Scrapy's users write: `::text`, `::attr(name)` and
`:contains("text")`. Every function raises `ValueError` with a sentence that says what is wrong and
how to mend it; what is read here cannot fail later for its own sake.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from cssselect import SelectorError
from cssselect import parser as cssselect
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\\.|::|.', re.DOTALL)
_OPENING, _CLOSING = frozenset("[("), frozenset(")]")
_PSEUDO_ELEMENT = re.compile(r"::(?:(text)|attr\(\s*([^\s()\"']+)\s*\))\s*").fullmatch
_CONTAINS = re.compile(r":contains\(\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\w-]+)\s*\)")
# A text node holds the text, of the element's own or further inside.
_HOLDS = r":is(:lexbor-contains({0}), :has(:lexbor-contains({0})))"
_COMBINATORS = frozenset(">+~,")
# Texts, and positions among siblings, look at no other element.
_PLAIN = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|:nth-[a-z-]+\((?:[^()o]|odd)*\)', re.DOTALL
)
_LOOKING = re.compile(
    r":has\(|\bof\b|(?<![\s>+~,(])\s*[>+~]\s*(?=\S)|(?<=[\w)\]*])\s+(?=[\w.#:\[*])"
)
_ANY_WITHIN = re.compile(r"(?<=[^\s>+~])\s+\*$")
_NEEDS_ELEMENT = re.compile(r"(?:^|[>+~])\s*$")
_EMPTY = LexborHTMLParser("")
_FIXES = (
    ("!=", '`[a!="b"]` is written `:not([a="b"])`'),
    (":scope", "`:scope` is not needed: leave it out"),
    (":lang(", '`:lang(de)` is written `[lang|="de"]`'),
    (":first", "jQuery's `:first` is not needed: the first that matches counts"),
    ("@", "an attribute is read by `img::attr(src)`"),
    (":eq(", "jQuery's `:eq(1)` is written `:nth-child(2)` or `:nth-of-type(2)`"),
    (":visible", "whether an element is seen is not in the page's HTML: leave `:visible` out"),
)


class CssSelector(NamedTuple):
    """`query` is what lexbor answers, then `inside` what each of these compounds selects within the
    elements before. Of each element `attribute` is taken, or its own `text` nodes, or, where
    neither is asked for, the element itself. `slow`: a page can make it cubic or worse."""

    query: str
    inside: tuple[str, ...] = ()
    attribute: str | None = None
    text: bool = False
    slow: bool = False

    @property
    def selects_elements(self) -> bool:
        return self.attribute is None and not self.text

    def select_all(self, page: LexborHTMLParser | LexborNode) -> list[LexborNode]:
        """All that match, in the order of the document, each once. Linear in the page where the
        selector is not `slow`: lexbor would try each ancestor for each part of `a b c`."""
        elements = page.css(self.query)
        # Of a list, an element comes once for each selector that it matches.
        if "," in self.query and len(elements) > 1:
            elements = list({element.mem_id: element for element in elements}.values())
        for compound in self.inside:
            elements = [
                inner
                for outer in _keep_outermost(elements)
                for inner in outer.css(compound)
                if inner.mem_id != outer.mem_id
            ]
        return elements

    def select_first(self, page: LexborHTMLParser | LexborNode) -> LexborNode | None:
        """The first that matches."""
        element = page.css_first(self.query)
        for compound in self.inside:
            outer = element
            if outer is None:
                return None
            element = outer.css_first(compound)
            if element is not None and element.mem_id == outer.mem_id:
                element = next(iter(outer.css(compound)[1:]), None)
        if element is None and self.inside:
            # The first of the outer elements has none.
            return next(iter(self.select_all(page)), None)
        return element


def _keep_outermost(elements: list[LexborNode]) -> list[LexborNode]:
    """Those that do not lie within another one, of elements in the order of the document."""
    if len(elements) < 2:
        return elements
    outermost: list[LexborNode] = []
    within: set[int] = set()
    without: set[int] = set()
    for element in elements:
        way: list[int] = []
        node: LexborNode | None = element
        while node is not None and node.mem_id not in within and node.mem_id not in without:
            way.append(node.mem_id)
            node = node.parent
        if node is not None and node.mem_id in within:
            within.update(way)
        else:
            # Nobody asks twice what lies above an element.
            without.update(way[1:])
            within.add(element.mem_id)
            outermost.append(element)
    return outermost


@lru_cache(maxsize=4096)
def parse_css(css: str) -> CssSelector:
    """CSS with `::text` and `::attr(name)`; it selects elements where neither is written."""
    if not css.strip():
        raise ValueError("the CSS selector is empty (fix: for example `h1::text`)")
    parts = [_split_pseudo_element(css, part) for part in _split_list(css)]
    if len({pseudo for _, pseudo in parts}) > 1:
        raise ValueError(
            f"bad CSS selector {css!r}: its parts take different things of an element (fix: "
            f"write each part as an entry of `any:`)"
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
    return CssSelector(head, inside, attribute or None, text, slow)


def check_css_of_elements(css: str) -> CssSelector:
    """For where elements are meant, and nothing of them."""
    selector = parse_css(css)
    if not selector.selects_elements:
        raise ValueError(
            f"bad CSS selector {css!r}: elements are wanted here (fix: leave `::` and what "
            f"follows out)"
        )
    return selector


def _split_descendants(query: str) -> tuple[str, tuple[str, ...]]:
    """`a > b c d` is `a > b`, and inside these `c`, and inside these `d`."""
    compounds, between = _split_compounds(query)
    if "," in between:
        return query, ()
    last = max((n for n, sign in enumerate(between) if sign != " "), default=-1) + 1
    head = compounds[0]
    for sign, compound in zip(between[:last], compounds[1 : last + 1], strict=True):
        head += f" {compound}" if sign == " " else f" {sign} {compound}"
    return head, tuple(compounds[last + 1 :])


def _split_compounds(query: str) -> tuple[list[str], list[str]]:
    """The parts of a selector, and what stands between each two: ` `, `>`, `+`, `~` or `,`."""
    compounds, between, depth, sign = [""], [], 0, ""
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
    """Where more than one part has to be looked for among ancestors or siblings, lexbor tries each
    way."""
    compounds, between = _split_compounds(part)
    ways = sum(sign in (" ", "~") for sign in between)
    return ways + sum(len(_LOOKING.findall(_PLAIN.sub("", part))) for part in compounds) > 1


def _split_list(css: str) -> list[str]:
    """What stands between the commas of a list."""
    parts, depth, open_quote = [""], 0, False
    for piece in _PIECE.findall(css):
        depth += (piece in _OPENING) - (piece in _CLOSING)
        # One that is closed is a part of a longer piece.
        open_quote = open_quote or piece in ("'", '"')
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    if depth or open_quote:
        raise ValueError(f"bad CSS selector {css!r}: a bracket or a quote is open (fix: close it)")
    return parts


def _split_pseudo_element(css: str, part: str) -> tuple[str, str]:
    """`h1 ::text` takes the text nodes of `h1` and of all that it holds."""
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
                f"bad CSS selector {css!r}: no element can be taken apart by {pseudo!r} (fix: the "
                f"only pseudo-elements are `::text` and `::attr(name)`, at the end)"
            )
        # As parsel reads it, `h1 *::text` is the same.
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
    """lexbor says only that it cannot read a selector."""
    try:
        cssselect.parse(css)
    except SelectorError as error:
        reason = " ".join(str(error).split()).rstrip(".")
    else:
        reason = "it is not a selector that pages are read with"
    if css.lstrip().startswith(("/", "(")) or "//" in css:
        return f"{reason} (fix: this looks like XPath: write `xpath:` in place of `css:`)"
    for sign, fix in _FIXES:
        if sign in css:
            return f"{reason} (fix: {fix})"
    return (
        f"{reason} (fix: try it in a browser's console with document.querySelectorAll; quote it "
        f"in YAML if it starts with # or [)"
    )
