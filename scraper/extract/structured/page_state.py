"""The JSON that a page's scripts start with: `__NEXT_DATA__`, `window.__INITIAL_STATE__ = {…}`,
`data-page="{…}"`.

Pure, and never raises. JavaScript beyond JSON (functions, expressions) is not read.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from scraper.extract.structured import normalized_state
from scraper.extract.structured.jsonld_blocks import REPAIRED_MAX_CHARS, load_json, load_json_at

# The documents read from a page, and the assignments without JSON after which reading stops: each
# of them may be read to its end.
DOCUMENTS_MAX = 100
FAULTS_MAX = 20
_NEXT = re.compile(rb"<!--|<script(?=[\s/>])", re.IGNORECASE).search
_TAG_END = re.compile(rb"""(?:[^"'>]|"[^"]*"|'[^']*')*+>""").match
_CLOSING = re.compile(rb"</script[\s/>]", re.IGNORECASE).search
_ATTRIBUTE = re.compile(r"""(?<![\w-])(type|id)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)
_TAG_MAX_BYTES = 5000
# An attribute that holds an object or a list of objects, as web components receive their data.
_IN_ATTRIBUTE = (b'="{&quot;', b'="[{&quot;', b'="{&#34;', b"='{\"", b"='[{\"")
_ATTRIBUTE_NAME = re.compile(rb"[\s\"'/]([a-zA-Z:@][\w:.-]{0,60})$").search
ATTRIBUTES_MAX = 50
ATTRIBUTE_MIN_BYTES = 60
_ASSIGNED = re.compile(
    r"""(?:\b(?:window|self|globalThis)\s{0,9}(?:\.\s{0,9}([\w$]{1,100})"""
    r"""|\[\s{0,9}["']([^"'\]]{1,100})["']\s{0,9}\])|\b(?:var|let|const)\s{1,9}([\w$]{1,100}))"""
    r"""\s{0,9}=\s{0,9}(?:JSON\.parse\(\s{0,9}(?=["'])|(?=[{\[]))"""
).search
# `undefined`, which serializers for scripts write, or a whole text, which may contain the word.
_UNDEFINED = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))|\bundefined\b', re.DOTALL)
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL).match
_JS_ESCAPE = re.compile(r'\\x([0-9a-fA-F]{2})|(\\[^x])|"', re.DOTALL)


def read_documents(source: bytes) -> list[Any]:
    """Returns one object with all named documents (by a script's id or a variable's name), then
    each document by itself, in the page's order."""
    by_name: dict[str, Any] = {}
    values: list[Any] = []
    for name, value in chain(_script_documents(source), _attribute_documents(source)):
        value = normalized_state.resolve_state(value)
        if name:
            by_name.setdefault(name, value)
        values.append(value)
        if len(values) == DOCUMENTS_MAX:
            break
    return [by_name, *values] if values else []


def _script_documents(source: bytes) -> Iterator[tuple[str, Any]]:
    faults = 0
    for attributes, text in _find_scripts(source):
        kind = attributes.get("type", "").lower()
        if "ld+json" in kind:
            continue
        if "json" in kind:
            value = load_json(text)
            if isinstance(value, dict | list):
                yield attributes.get("id", ""), value
        elif not kind or "javascript" in kind or kind == "module":
            at = 0
            while faults < FAULTS_MAX and (match := _ASSIGNED(text, at)) is not None:
                value, at = _load_assigned(text, match.end())
                if isinstance(value, dict | list):
                    yield match[1] or match[2] or match[3], value
                else:
                    faults += 1


def _attribute_documents(source: bytes) -> Iterator[tuple[str, Any]]:
    for opening in _IN_ATTRIBUTE:
        at = -1
        for _ in range(ATTRIBUTES_MAX):
            if (at := source.find(opening, at + 1)) < 0:
                break
            name = _ATTRIBUTE_NAME(source, max(0, at - 64), at)
            end = source.find(opening[1:2], at + 2)
            if name is None or end - at < ATTRIBUTE_MIN_BYTES:
                continue
            value = load_json(html.unescape(source[at + 2 : end].decode("utf-8", "replace")))
            if isinstance(value, dict | list):
                yield name[1].decode(), value


def _load_assigned(text: str, at: int) -> tuple[Any, int]:
    """Returns the value at `at` and its end: an object, a list, or one of them within a text."""
    if text[at] in "{[":
        value, end = load_json_at(text, at)
        if value is None and "undefined" in (part := text[at : at + REPAIRED_MAX_CHARS]):
            value, _ = load_json_at(_UNDEFINED.sub(lambda m: m[1] or "null", part), 0)
        return value, end
    if text[at] == "'":
        quoted = _SINGLE_QUOTED(text, at)
        if quoted is None:
            return None, at
        return load_json(
            load_json_at(f'"{_JS_ESCAPE.sub(_escape_for_json, quoted[1])}"', 0)[0] or ""
        ), (quoted.end())
    inner, end = load_json_at(text, at)
    return (load_json(inner) if isinstance(inner, str) else None), end


def _escape_for_json(match: re.Match[str]) -> str:
    if match[1]:
        return f"\\u00{match[1]}"
    if match[2] is None:
        return '\\"'
    return "'" if match[2] == "\\'" else match[2]


def _find_scripts(source: bytes) -> Iterator[tuple[dict[str, str], str]]:
    """Yields the attributes and text of each script outside comments."""
    at = 0
    while (opening := _NEXT(source, at)) is not None:
        if opening[0] == b"<!--":
            at = source.find(b"-->", opening.end() - 2) + 3
            if at < 3:
                return
            continue
        tag = _TAG_END(source, opening.end(), opening.end() + _TAG_MAX_BYTES)
        if tag is None:
            at = opening.end()
            continue
        closing = _CLOSING(source, tag.end())
        if closing is None:
            return
        at = closing.end()
        if tag.end() < closing.start():
            written = tag[0].decode("utf-8", "replace")
            attributes = {
                match[1].lower(): match[2] or match[3] or match[4] or ""
                for match in _ATTRIBUTE.finditer(written)
            }
            yield attributes, source[tag.end() : closing.start()].decode("utf-8", "replace")
