"""CSS of tags, classes and descendants (`h1`, `.product .price`, `td.sku::text`), looked up in an
index of the page.

Eight fields by class cost eight walks of the tree in XPath, some 35 us each; the index is one walk
for all of them, and who wants one text looks no further than to the first. It gives exactly what
the XPath of the same CSS gives, which the property tests hold it to. Every other selector, and a
page that makes the look-up long, is left to XPath.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from cssselect import parser
from lxml import etree

# So many ancestors are looked at for one selector on one page; more is a page made to be slow.
STEPS_MAX = 100_000
# A shop's pages repeat the same few class attributes.
CACHED_CHARS = 200
# It costs half of what `//*[@class]` does.
_WITH_CLASS = etree.XPath("//@class/..", regexp=False)
# This is what normalize-space() knows, in which str.split() would also see form feeds.
_XML_SPACE = re.compile("[ \t\r\n]+")
_TAG = re.compile("[a-z][a-z0-9]*").fullmatch
_NONE: tuple[Any, ...] = ()


class TooLong(Exception):
    """The page makes this look-up long, or its elements lie within each other: XPath is to
    answer."""


class CssIndex:
    """A page's elements by their classes, in document order."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root

    @cached_property
    def by_class(self) -> dict[str, list[Any]]:
        index: dict[str, list[Any]] = {}
        elements: Any = _WITH_CLASS(self.root)
        for element in elements:
            text = element.get("class")
            for name in _classes(text) if len(text) <= CACHED_CHARS else _classes.__wrapped__(text):
                members = index.get(name)
                if members is None:
                    index[name] = [element]
                else:
                    members.append(element)
        return index


class Compound(NamedTuple):
    """`td.sku.new`: a tag (None: any), a class (None: any) and further classes that an element must
    have."""

    tag: str | None
    name: str | None
    others: tuple[str, ...] = ()

    def members(self, index: CssIndex) -> Iterable[Any]:
        """Its elements, in document order."""
        if self.name is None:
            return index.root.iter(self.tag)
        elements = index.by_class.get(self.name, _NONE)
        if not self.others and self.tag is None:
            return elements
        among = [set(index.by_class.get(other, _NONE)) for other in self.others]
        return [
            element
            for element in elements
            if (self.tag is None or element.tag == self.tag)
            and all(element in other for other in among)
        ]


class CssPath(NamedTuple):
    """Compounds from the outermost in, each somewhere below the one before; then the elements, one
    attribute of theirs, or their text nodes."""

    outer: tuple[Compound, ...]
    last: Compound
    attribute: str | None = None
    text: bool = False

    def found(self, index: CssIndex) -> Iterable[Any]:
        """Elements (or attribute values, or texts) in document order, looked for as they are asked
        for. Raises `TooLong`."""
        elements = self.last.members(index)
        if self.outer:
            elements = _below(self._among(index), elements)
        if self.text:
            return _text_nodes(elements)
        if self.attribute is None:
            return elements
        return (value for element in elements if (value := element.get(self.attribute)) is not None)

    def _among(self, index: CssIndex) -> list[Set[Any] | str]:
        """For each outer compound its elements, or the tag that is all it asks for."""
        return [
            outer.tag or "" if outer.name is None else set(outer.members(index))
            for outer in self.outer
        ]


def css_path(css: str) -> CssPath | None:
    """The selector as a `CssPath`; None where it is of another sort."""
    try:
        selectors = parser.parse(css)
    except parser.SelectorError:
        return None
    if len(selectors) != 1:
        return None
    compounds: list[Compound | None] = []
    node: Any = selectors[0].parsed_tree
    while isinstance(node, parser.CombinedSelector):
        if node.combinator != " ":
            return None
        compounds.append(_compound(node.subselector))
        node = node.selector
    compounds.append(_compound(node))
    inwards = [compound for compound in reversed(compounds) if compound is not None]
    if len(inwards) < len(compounds):
        return None
    pseudo = selectors[0].pseudo_element
    outer, last = tuple(inwards[:-1]), inwards[-1]
    if pseudo is None:
        return CssPath(outer, last)
    if pseudo == "text":
        return CssPath(outer, last, text=True)
    if isinstance(pseudo, parser.FunctionalPseudoElement) and pseudo.name == "attr":
        return CssPath(outer, last, str(pseudo.arguments[0].value).lower())
    return None


def _compound(node: Any) -> Compound | None:
    classes: dict[str, None] = {}
    while isinstance(node, parser.Class):
        classes[node.class_name] = None
        node = node.selector
    if not isinstance(node, parser.Element) or node.namespace is not None:
        return None
    tag = node.element.lower() if node.element else None
    if not (classes or tag) or (tag and not _TAG(tag)):
        return None
    names = tuple(classes)
    return Compound(tag, names[0] if names else None, names[1:])


def _below(outer: list[Set[Any] | str], elements: Iterable[Any]) -> Iterator[Any]:
    """Those with an ancestor in each set (or of each tag), outermost first."""
    steps = 0
    for element in elements:
        wanted = len(outer) - 1
        among = outer[wanted]
        for ancestor in element.iterancestors():
            steps += 1
            # The nearest ancestor that fits is as good as any: what must lie outside it lies
            # outside the others too.
            if ancestor.tag == among if isinstance(among, str) else ancestor in among:
                wanted -= 1
                if wanted < 0:
                    yield element
                    break
                among = outer[wanted]
        if steps > STEPS_MAX:
            raise TooLong


def _text_nodes(elements: Iterable[Any]) -> Iterator[str]:
    """Those right below each element. Of an element within another one they would come too late."""
    before, steps = None, 0
    for element in elements:
        if before is not None:
            for ancestor in element.iterancestors():
                steps += 1
                if ancestor is before or steps > STEPS_MAX:
                    raise TooLong
            yield from (child.tail for child in before if child.tail)
        if element.text:
            yield element.text
        before = element
    if before is not None:
        yield from (child.tail for child in before if child.tail)


@lru_cache(maxsize=4096)
def _classes(text: str) -> tuple[str, ...]:
    """The names in a class attribute, each once."""
    names = (
        text.split()
        if text.isascii() and text.isprintable()
        else filter(None, _XML_SPACE.split(text))
    )
    return tuple(dict.fromkeys(names))
