"""CSS selectors for an element, the ones that outlive a redesign first: what is written for
machines, then ids and classes that say what they hold, then places. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.sites.grammar.css import parse_css

# An identifier that needs no escaping.
_PLAIN = re.compile(r"[A-Za-z_][\w-]*").fullmatch
# Names that a build tool has made: css-1x2y3z, sc-bdVaJa, jss12, _3xYz2.
_MADE = re.compile(
    r"(?:css|sc|jss|jsx|makestyles|svelte|ng|ember|v|vue)-?[\w-]*\d[\w-]*|_.*|sc-[A-Za-z]+"
    r"|.*(?:^|[-_])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{5,}|.*\d{3,}.*",
    re.IGNORECASE,
).fullmatch
# CSS modules: `Card_price__m5N6b` keeps what stands before its hash.
_MODULE = re.compile(r"([A-Za-z][\w-]*?_[A-Za-z][\w-]*?__)[\w-]{5,}").fullmatch
# Names of places and looks, which say nothing of what stands there.
_LAYOUT = re.compile(
    r"(?:col|row|grid|flex|d|m[tblrxy]?|p[tblrxy]?|w|h|text|bg|border|font|float|pull|push|container"
    r"|wrapper|clearfix|inner|outer|left|right|center|first|last|odd|even|active|current|selected"
    r"|hidden|visible|show|fade|in|item|block|inline|align|justify|rounded|shadow|small|large|bold"
    r"|section|content|body|main|page|box|card|panel|widget|module|component|clear|span|is|has|js"
    r"|instock|outofstock|available|unavailable|onsale|sale|discounted|soldout|sold"
    r"|value|label|data|info|details?|list|wrap|holder|group|element|link|field|entry"
    r"|lazy|lazyload|loaded|lazyloaded|img|fluid|responsive|top|bottom|sm|md|lg|xl|fw|fs|lh|gap)"
    r"(?:[-_]+[\w-]+)?",
    re.IGNORECASE,
).fullmatch
_MACHINE = ("itemprop", "data-testid", "data-test", "data-qa", "data-hook", "data-field")
# Elements that by themselves say what they hold.
_TELLING = frozenset({"h1", "h2", "del", "ins", "s", "strike", "time", "address", "data"})
# How pages looked before there were classes.
_LOOKS = ("size", "color", "align", "bgcolor", "width", "face")
_LOOK = re.compile(r"[\w#%.-]{1,20}").fullmatch
ANCESTORS_MAX = 6
CLASSES_MAX = 4


class Step(NamedTuple):
    """One element's part of a selector; `rank` is low for what lasts."""

    css: str
    rank: int


class Path(NamedTuple):
    css: str
    rank: int


def steps(element: LexborNode) -> list[Step]:
    """Ways to name the element by what it says of itself."""
    attributes = element.attributes
    tag = element.tag or "*"
    named: list[Step] = []
    for key in _MACHINE:
        value = attributes.get(key)
        if value and _PLAIN(value) and not _MADE(value):
            named.append(Step(f"[{key}={value}]", 0))
    identifier = attributes.get("id")
    if identifier and _PLAIN(identifier) and not _MADE(identifier):
        named.append(Step(f"#{identifier}", 1))
    classes = [name for name in (attributes.get("class") or "").split() if _PLAIN(name)]
    lasting = [name for name in classes if not _MADE(name)]
    telling = [name for name in lasting if not _LAYOUT(name)]
    named += [Step(f".{name}", 2) for name in telling[:CLASSES_MAX]]
    named += [Step(f"{tag}.{name}", 3) for name in telling[:CLASSES_MAX]]
    if tag in _TELLING:
        named.append(Step(tag, 1))
    if not classes:
        for key in _LOOKS:
            value = attributes.get(key)
            if value and _LOOK(value):
                named.append(Step(f'{tag}[{key}="{value}"]', 7))
    modules = [match[1] for name in classes if _MADE(name) and (match := _MODULE(name))]
    named += [Step(f'[class*="{module}"]', 3) for module in modules[:CLASSES_MAX]]
    looks = [name for name in lasting if _LAYOUT(name)]
    named += [Step(f"{tag}.{name}", 6) for name in looks[:CLASSES_MAX]]
    return named


def ancestors(element: LexborNode, most: int = ANCESTORS_MAX) -> Iterator[LexborNode]:
    """From the parent up, without <html> and <body>."""
    parent = element.parent
    for _ in range(most):
        if parent is None or parent.tag in ("html", "body", "-undef", None):
            return
        yield parent
        parent = parent.parent


def paths(element: LexborNode) -> list[Path]:
    """Selectors that may match the element, the lasting ones first. Whether they match it first is
    the caller's to see."""
    own = steps(element)
    tag = element.tag or "*"
    found_paths = [Path(step.css, step.rank) for step in own]
    if not any(step.rank < 7 for step in own):
        found_paths += _by_tags(element)
    own = [*own, Step(tag, 4)]
    for distance, ancestor in enumerate(ancestors(element), 1):
        for above in steps(ancestor)[:3]:
            found_paths += [
                Path(f"{above.css} {step.css}", above.rank + step.rank + 1 + distance // 3)
                for step in own[:5]
            ]
            if distance == 1:
                found_paths.append(Path(f"{above.css} > {tag}", above.rank + 4))
                found_paths.append(
                    Path(f"{above.css} > {tag}:nth-child({_place(element)})", above.rank + 6)
                )
    before = element.prev
    while before is not None and before.is_text_node:
        before = before.prev
    if before is not None and before.is_element_node:
        found_paths += [Path(f"{step.css} + {tag}", step.rank + 3) for step in steps(before)[:2]]
    unique = {path.css: path for path in sorted(found_paths, key=_order, reverse=True)}
    return sorted(unique.values(), key=_order)


def _by_tags(element: LexborNode) -> Iterator[Path]:
    """For an element that nothing names: its tag, and those that it stands in."""
    css = element.tag or "*"
    yield Path(css, 8)
    for level, ancestor in enumerate(ancestors(element, 2)):
        css = f"{ancestor.tag} > {css}"
        yield Path(css, 9 + level)


def is_first(css: str, element: LexborNode, page: LexborHTMLParser) -> bool:
    """Whether the selector, as a definition writes it, matches the element before all others."""
    first = parse_css(css).first(page)
    return first is not None and first.mem_id == element.mem_id


def _order(path: Path) -> tuple[int, int]:
    return path.rank, len(path.css)


def _place(element: LexborNode) -> int:
    """Its number among its parent's elements, from 1."""
    number, before = 1, element.prev
    while before is not None:
        number += before.is_element_node
        before = before.prev
    return number
