"""A page's RDFa in schema.org's vocabulary (W3C, "RDFa Core 1.1", and RDFa Lite) as objects in the
shape of JSON-LD. Pure.

Properties of other vocabularies and objects without a type are not read. The text read from a page
is limited as in `microdata`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.extract.structured.microdata import (
    DEPTH_MAX,
    OBJECTS_MAX,
    PROPERTIES_MAX,
    TEXTS_MAX,
    add_property,
    read_value,
)

_SCHEMA = re.compile(r"https?://(?:www\.)?schema\.org/?#?(\w*)", re.I).fullmatch
# From the initial context of RDFa 1.1, which pages need not declare.
_PREFIXES = {"schema": "http://schema.org/"}
_PAIRS = re.compile(r"([A-Za-z_][\w.-]*):\s+(\S+)")


class _Scope(NamedTuple):
    """What an element inherits from its ancestors. `relations`: properties of `subject` whose value
    is the next object inside."""

    vocab: str
    prefixes: Mapping[str, str]
    subject: dict[str, Any] | None
    relations: tuple[str, ...]


_OUTERMOST = _Scope("", _PREFIXES, None, ())


def read_objects(dom: LexborHTMLParser) -> list[dict[str, Any]]:
    """Returns every object, outer objects before the objects inside them."""
    scopes: dict[int, _Scope] = {}
    outer: list[dict[str, Any]] = []
    inner: list[dict[str, Any]] = []
    by_name: dict[str, dict[str, Any]] = {}
    # By identity: objects may contain each other, and comparing them would not end.
    placed: set[int] = set()
    read = 0
    elements = dom.css("[vocab], [prefix], [typeof], [property], [rel], [about]")
    for element in elements[: OBJECTS_MAX + PROPERTIES_MAX]:
        # The selector lists an element once for each of its attributes.
        if element.mem_id in scopes:
            continue
        above = _enclosing_scope(element, scopes)
        attributes = element.attributes
        vocab = attributes.get("vocab")
        vocab = above.vocab if vocab is None else vocab
        prefixes = above.prefixes
        if attributes.get("prefix"):
            pairs = _PAIRS.findall(attributes["prefix"] or "")
            prefixes = {**prefixes, **{name.lower(): iri for name, iri in pairs}}
        terms = _Scope(vocab, prefixes, None, ())
        names = _schema_names(attributes.get("property"), terms)
        relations = _schema_names(attributes.get("rel"), terms)
        subject = above.subject
        own = _begin_object(attributes, terms, by_name)
        if own is not None and len(outer) + len(inner) < OBJECTS_MAX:
            # `rel` on an object's own element describes the enclosing object, or the object itself
            # if nothing encloses it.
            holder = names or relations if subject is not None else ()
            for name in holder or above.relations:
                add_property(subject or own, name, own)
            if id(own) not in placed:
                placed.add(id(own))
                is_inner = subject is not None and bool(holder or above.relations)
                (inner if is_inner else outer).append(own)
            subject = own
            relations = () if holder and not names else relations
            if not holder:
                read += _set_text(element, names, own, read)
        elif names and subject is not None:
            read += _set_text(element, names, subject, read)
        # `rel` outside any object describes the page.
        scopes[element.mem_id] = _Scope(vocab, prefixes, subject, relations if subject else ())
    return [*outer, *inner]


def _set_text(
    element: LexborNode, names: tuple[str, ...], subject: dict[str, Any], read: int
) -> int:
    """Sets the properties to the element's value. Returns the number of characters read."""
    if not names or read > TEXTS_MAX:
        return 0
    value = read_value(element, names)
    for name in names if value else ():
        add_property(subject, name, value)
    return len(value or "")


def _begin_object(
    attributes: Mapping[str, str | None], terms: _Scope, by_name: dict[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """Returns the object that the element begins, or the earlier one that it continues by name."""
    name = attributes.get("about") or (
        attributes.get("resource") if attributes.get("typeof") else None
    )
    types = _schema_names(attributes.get("typeof"), terms)
    if not types:
        return by_name.get(name) if name and attributes.get("about") else None
    if name and name in by_name:
        return by_name[name]
    made: dict[str, Any] = {"@type": list(types)}
    if name:
        by_name[name] = made
    return made


def _schema_names(text: str | None, scope: _Scope) -> tuple[str, ...]:
    """Returns the schema.org names among the terms, CURIEs and IRIs of an attribute."""
    names: list[str] = []
    for word in (text or "").split():
        prefix, colon, local = word.partition(":")
        iri = word
        if not colon:
            iri = scope.vocab + word if scope.vocab else ""
        elif not local.startswith("//"):
            iri = scope.prefixes.get(prefix.lower(), "") + local
        match = _SCHEMA(iri)
        if match is not None and match[1]:
            names.append(match[1])
    return tuple(names)


def _enclosing_scope(element: LexborNode, scopes: Mapping[int, _Scope]) -> _Scope:
    parent = element.parent
    for _ in range(DEPTH_MAX):
        if parent is None:
            break
        scope = scopes.get(parent.mem_id)
        if scope is not None:
            return scope
        parent = parent.parent
    return _OUTERMOST
