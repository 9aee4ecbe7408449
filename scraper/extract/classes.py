"""CSS of classes and descendants (`.product .price`, `td.sku`), looked up in an index of the page instead of searched.

Eight fields by class cost eight walks of the tree in XPath, some 35 us each; the index is one walk for all of them. It
gives exactly what the XPath of the same CSS gives, which the property tests hold it to. Every other selector, and a page
that makes the look-up long, is left to XPath.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from cssselect import parser
from lxml import etree

STEPS_MAX = 100_000  # ancestors looked at for one selector on one page; more is a page made to be slow
CACHED_CHARS = 200  # a shop's pages repeat the same few class attributes
_WITH_CLASS = etree.XPath("descendant-or-self::*[@class]")
_XML_SPACE = re.compile("[ \t\r\n]+")  # what normalize-space() knows, in which str.split() would also see form feeds


class Compound(NamedTuple):
    """`td.sku.new`: a tag (None: any) and classes that an element must have."""

    tag: str | None
    classes: frozenset[str]


class ClassPath(NamedTuple):
    """Compounds from the outermost in, each somewhere below the one before; then the elements, or one attribute."""

    compounds: tuple[Compound, ...]
    attribute: str | None


Index = dict[str, list[Any]]


def class_path(css: str) -> ClassPath | None:
    """The selector as a `ClassPath`; None where it is of another sort, or a part of it names no class."""
    try:
        selectors = parser.parse(css)
    except parser.SelectorError:
        return None
    if len(selectors) != 1:
        return None
    compounds: list[Compound] = []
    node: Any = selectors[0].parsed_tree
    while isinstance(node, parser.CombinedSelector):
        if node.combinator != " ":
            return None
        compounds.append(_compound(node.subselector))
        node = node.selector
    compounds.append(_compound(node))
    attribute = _attribute(selectors[0].pseudo_element)
    if attribute is _OTHER or not all(compound is not _OTHER and compound.classes for compound in compounds):
        return None
    return ClassPath(tuple(reversed(compounds)), attribute)


_OTHER: Any = object()


def _compound(node: Any) -> Compound:
    classes = set()
    while isinstance(node, parser.Class):
        classes.add(node.class_name)
        node = node.selector
    if not isinstance(node, parser.Element) or node.namespace is not None:
        return _OTHER  # type: ignore[no-any-return]
    return Compound(node.element.lower() if node.element else None, frozenset(classes))


def _attribute(pseudo: Any) -> str | None:
    if pseudo is None:
        return None
    if isinstance(pseudo, parser.FunctionalPseudoElement) and pseudo.name == "attr":
        return str(pseudo.arguments[0].value).lower()
    return _OTHER  # type: ignore[no-any-return]


def index_of(root: etree._Element) -> Index:
    """The elements of each class, in document order."""
    index: Index = {}
    elements: Any = _WITH_CLASS(root)
    for element in elements:
        text = element.get("class")
        for name in _classes(text) if len(text) <= CACHED_CHARS else _classes.__wrapped__(text):
            members = index.get(name)
            if members is None:
                index[name] = [element]
            else:
                members.append(element)
    return index


def find(path: ClassPath, index: Index) -> list[Any] | None:
    """Elements (or attribute values) in document order; None where it would take too long."""
    *outer, last = [_members(compound, index) for compound in path.compounds]
    found = last
    if outer and last:
        if not all(outer):
            return []
        below = _below([set(members) for members in outer], last)
        if below is None:
            return None
        found = below
    if path.attribute is None:
        return found
    return [value for element in found if (value := element.get(path.attribute)) is not None]


def _below(outer: list[set[Any]], elements: list[Any]) -> list[Any] | None:
    """Those with an ancestor in each set, outermost first; None where too many ancestors had to be looked at."""
    steps, found = 0, []
    for element in elements:
        wanted = len(outer) - 1
        for ancestor in element.iterancestors():
            steps += 1
            if steps > STEPS_MAX:
                return None
            # The nearest ancestor that fits is as good as any: what must lie outside it lies outside the others too.
            if ancestor in outer[wanted]:
                wanted -= 1
                if wanted < 0:
                    found.append(element)
                    break
    return found


def _members(compound: Compound, index: Index) -> list[Any]:
    """The compound's elements, in document order."""
    rarest, *others = sorted((index.get(name, []) for name in compound.classes), key=len)
    for other in others:
        also = set(other)
        rarest = [element for element in rarest if element in also]
    return rarest if compound.tag is None else [element for element in rarest if element.tag == compound.tag]


@lru_cache(maxsize=4096)
def _classes(text: str) -> tuple[str, ...]:
    """The names in a class attribute, each once."""
    names = text.split() if text.isascii() and text.isprintable() else filter(None, _XML_SPACE.split(text))
    return tuple(dict.fromkeys(names))
