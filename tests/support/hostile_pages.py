"""Pages that were made to be slow, each with the source that reads it and a function that makes it."""

from __future__ import annotations

from collections.abc import Callable

CSS = "{css: h1}"


def attributes(count: int) -> bytes:
    return b"<p " + b" ".join(b"a%d=1" % n for n in range(count)) + b">x"


HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "attributes": (CSS, lambda: attributes(300_000)),
    "attributes behind a quoted sign": (CSS, lambda: b'<p x="<script>" ' + attributes(200_000)[3:]),
    "many elements of some attributes": (CSS, lambda: attributes(900) * 300),
    "attributes, by XPath": ("{xpath: //h1}", lambda: attributes(200_000)),
    "paragraphs of a class": ("{css: .q}", lambda: b"<p class=p>" * 400_000),
    "siblings that are counted": (
        "{css: 'td:nth-child(2)'}",
        lambda: b"<table><tr>" + b"<td>x" * 60_000,
    ),
    "siblings before siblings": (
        "{css: 'div:nth-of-type(2) ~ div ~ p'}",
        lambda: b"<div>x</div>" * 30_000,
    ),
    "siblings within each other": ("{css: ':has(~ i ~ .x)'}", lambda: b"<i>x</i>" * 9_000),
    "depth": ("{css: '.x div div div p'}", lambda: b"<div>" * 9_000 + b"<p>x"),
    "depth and a child": ("{css: '.x div div > p'}", lambda: b"<div>" * 9_000 + b"<p>x"),
    "lists within lists": (CSS, lambda: b"<ul><li>" * 60_000),
    "texts of texts": ("{css: div, many: true}", lambda: b"<div>a" * 9_500),
    "XPath that looks back": ("{xpath: '//p[count(preceding::p) > 9]'}", lambda: b"<p>x" * 9_000),
    "XPath in XPath": ("{xpath: '//div//div//div//p'}", lambda: b"<div>" * 1_900 + b"<p>x"),
    "XPath within many": (
        "{xpath: '//div//p', many: true}",
        lambda: b"<div>" * 240 + b"<p>x" * 9_000,
    ),
    "XPath of many in one each": (
        "{xpath: '//i//b', many: true}",
        lambda: b"<i><b></b></i>" * 4_000,
    ),
    "a regular expression of XPath": (
        """{xpath: '//p[re:test(., "^(a+)+$")]'}""",
        lambda: b"<p>" + b"a" * 40 + b"!",
    ),
    "formatting that each block repeats": (
        CSS,
        lambda: b"<p>" + b"".join(b"<b a%d>" % n for n in range(2_500)) + b"</p><p>x" * 2_500,
    ),
    "depth of a large page": (CSS, lambda: b"<div>" * 30_000),
    "depth that is closed in vain": (CSS, lambda: b"<div><object></div></object>" * 14_000),
    "ends of what was never opened": (CSS, lambda: b"<svg>" + b"<g>" * 15_000 + b"</x>" * 15_000),
    "options of a list": (CSS, lambda: b"<select>" + b"<option>x" * 9_000),
    "options of a large list": (CSS, lambda: b"<select>" + b"<OPTION>x" * 50_000),
    "attributes of a repeated tag": (
        CSS,
        lambda: b"".join(b"<html a%d=1>" % n for n in range(30_000)),
    ),
    "formatting with a sign in quotes": (
        CSS,
        lambda: (
            b"<p>" + b"".join(b'<b a%d=">x</b>">' % n for n in range(2_500)) + b"</p><p>x" * 2_500
        ),
    ),
    "formatting that a marker protects": (
        CSS,
        lambda: (
            b"<p>"
            + b"".join(b"<b a%d><object></b></object>" % n for n in range(2_500))
            + b"</p><p>x" * 2_500
        ),
    ),
    "attributes of a large page": (CSS, lambda: b"<p>x</p>" * 6_000 + attributes(120_000)),
    "siblings of a large page": ("{css: 'p:nth-child(2)'}", lambda: b"<p>x</p>" * 25_000),
    "siblings of many names": (
        "{css: '.x:first-of-type'}",
        lambda: b"".join(b"<x%d class=x></x%d>" % (n, n) for n in range(25_000)),
    ),
    "texts of texts of a large page": ("{css: span, many: true}", lambda: b"<span>a" * 50_000),
    "texts in no order, by XPath": (
        "{xpath: '//p[last()]', many: true}",
        lambda: b"<p>x</p>" * 25_000,
    ),
    "depth between places that a fixed step would read": (
        CSS,
        lambda: (b"x" * 1_024 + b"<span>" * 512) * 240,
    ),
    "memory": (CSS, lambda: b"<p>" * 5_200_000),
}
