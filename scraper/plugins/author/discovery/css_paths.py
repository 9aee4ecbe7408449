"""CSS selectors for an element, the ones that outlive a redesign first: attributes for machines,
then ids and classes that name their content, then positions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.sites.grammar.css import parse_css

# An identifier that needs no escaping.
_PLAIN = re.compile(r"[A-Za-z_][\w-]*").fullmatch
# Names that a build tool generates: css-1x2y3z, sc-bdVaJa, jss12, _3xYz2.
_GENERATED = re.compile(
    r"(?:css|sc|jss|jsx|makestyles|svelte|ng|ember|v|vue)-?[\w-]*\d[\w-]*|_.*|sc-[A-Za-z]+"
    r"|.*(?:^|[-_])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{5,}|.*\d{3,}.*",
    re.IGNORECASE,
).fullmatch
# CSS modules: of `Card_price__m5N6b` the part before the hash lasts.
_MODULE = re.compile(r"([A-Za-z][\w-]*?_[A-Za-z][\w-]*?__)[\w-]{5,}").fullmatch
# Names of positions, looks and states, which do not name the content.
_LAYOUT = re.compile(
    r"(?:col|row|grid|flex|d|m[tblrxy]?|p[tblrxy]?|w|h|text|bg|border|font|float|pull|push|container"
    r"|wrapper|clearfix|inner|outer|left|right|center|first|last|odd|even|active|current|selected"
    r"|hidden|visible|show|fade|in|item|block|inline|align|justify|rounded|shadow|small|large|bold"
    r"|section|content|body|main|page|box|card|panel|widget|module|component|clear|span|is|has|js"
    r"|(?:not|low|in|on|out)(?:of|on|in)?stock|available|unavailable|onsale|sale|discounted|soldout|sold"
    r"|value|label|data|info|details?|list|wrap|holder|group|element|link|field|entry"
    r"|lazy|lazyload|loaded|lazyloaded|img|fluid|responsive|top|bottom|sm|md|lg|xl|fw|fs|lh|gap)"
    r"(?:[-_]+[\w-]+)?",
    re.IGNORECASE,
).fullmatch
_MACHINE = ("itemprop", "data-testid", "data-test", "data-qa", "data-hook", "data-field")
# Tags that name their content.
_MEANINGFUL = frozenset({"h1", "h2", "del", "ins", "s", "strike", "time", "address", "data"})
# Attributes that styled pages before classes did.
_LOOKS = ("size", "color", "align", "bgcolor", "width", "face")
_LOOK = re.compile(r"[\w#%.-]{1,20}").fullmatch
ANCESTORS_MAX = 6
CLASSES_MAX = 4


class PathStep(NamedTuple):
    """One element's part of a selector. A low `rank` lasts."""

    css: str
    rank: int


class ElementPath(NamedTuple):
    """A selector. A low `rank` lasts."""

    css: str
    rank: int


def element_steps(element: LexborNode) -> list[PathStep]:
    """Returns selectors by the element's own attributes, classes and tag."""
    attributes = element.attributes
    tag = element.tag or "*"
    own: list[PathStep] = []
    for key in _MACHINE:
        value = attributes.get(key)
        if value and _PLAIN(value) and not _GENERATED(value):
            own.append(PathStep(f"[{key}={value}]", 0))
    identifier = attributes.get("id")
    if identifier and _PLAIN(identifier) and not _GENERATED(identifier):
        own.append(PathStep(f"#{identifier}", 1))
    classes = [name for name in (attributes.get("class") or "").split() if _PLAIN(name)]
    lasting = [name for name in classes if not _GENERATED(name)]
    meaningful = [name for name in lasting if not _LAYOUT(name)]
    own += [PathStep(f".{name}", 2) for name in meaningful[:CLASSES_MAX]]
    own += [PathStep(f"{tag}.{name}", 3) for name in meaningful[:CLASSES_MAX]]
    if tag in _MEANINGFUL:
        own.append(PathStep(tag, 1))
    if "line-through" in (attributes.get("style") or ""):
        own.append(PathStep('[style*="line-through"]', 3))
    if not classes:
        for key in _LOOKS:
            value = attributes.get(key)
            if value and _LOOK(value):
                own.append(PathStep(f'{tag}[{key}="{value}"]', 7))
    modules = [match[1] for name in classes if _GENERATED(name) and (match := _MODULE(name))]
    own += [PathStep(f'[class*="{module}"]', 3) for module in modules[:CLASSES_MAX]]
    looks = [name for name in lasting if _LAYOUT(name)]
    own += [PathStep(f"{tag}.{name}", 6) for name in looks[:CLASSES_MAX]]
    return own


def ancestors(element: LexborNode, most: int = ANCESTORS_MAX) -> Iterator[LexborNode]:
    """Yields up to `most` ancestors, the parent first, without <html> and <body>."""
    parent = element.parent
    for _ in range(most):
        if parent is None or parent.tag in ("html", "body", "-undef", None):
            return
        yield parent
        parent = parent.parent


def find_paths(element: LexborNode) -> list[ElementPath]:
    """Returns selectors that match the element, the lasting ones first.

    They may match other elements before it, which is for the caller to check (`matches_first`).
    """
    own = element_steps(element)
    tag = element.tag or "*"
    written = [ElementPath(step.css, step.rank) for step in own]
    if not any(step.rank < 7 for step in own):
        written += _write_tag_paths(element)
    own = [*own, PathStep(tag, 4)]
    for distance, ancestor in enumerate(ancestors(element), 1):
        for above in element_steps(ancestor)[:3]:
            written += [
                ElementPath(f"{above.css} {step.css}", above.rank + step.rank + 1 + distance // 3)
                for step in own[:5]
            ]
            if distance == 1:
                child = f"{above.css} > {tag}"
                position = count_position(element)
                written.append(ElementPath(child, above.rank + 4))
                written.append(ElementPath(f"{child}:nth-child({position})", above.rank + 6))
    before = element_before(element)
    if before is not None:
        written += [
            ElementPath(f"{step.css} + {tag}", step.rank + 3) for step in element_steps(before)[:2]
        ]
    unique = {path.css: path for path in sorted(written, key=_sort_key, reverse=True)}
    return sorted(unique.values(), key=_sort_key)


def _write_tag_paths(element: LexborNode) -> Iterator[ElementPath]:
    """Yields selectors for an element without a name: its tag, and its ancestors' tags."""
    css = element.tag or "*"
    yield ElementPath(css, 8)
    for level, ancestor in enumerate(ancestors(element, 2)):
        css = f"{ancestor.tag} > {css}"
        yield ElementPath(css, 9 + level)


def element_before(element: LexborNode) -> LexborNode | None:
    """Returns the sibling element before this one, unless a comment is between them."""
    before = element.prev
    while before is not None and before.is_text_node:
        before = before.prev
    return before if before is not None and before.is_element_node else None


def matches_first(css: str, element: LexborNode, page: LexborHTMLParser) -> bool:
    """Returns whether the element is the first match of `css`, as a definition reads it."""
    first = parse_css(css).select_first(page)
    return first is not None and first.mem_id == element.mem_id


def _sort_key(path: ElementPath) -> tuple[int, int]:
    return path.rank, len(path.css)


def count_position(element: LexborNode) -> int:
    """Returns the element's number among its siblings, from 1."""
    number, before = 1, element.prev
    while before is not None:
        number += before.is_element_node
        before = before.prev
    return number
