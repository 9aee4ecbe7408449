"""Pages that were made to be slow, with the source that reads them."""

from __future__ import annotations

CSS = "{css: h1}"


def attributes(count: int) -> bytes:
    return b"<p " + b" ".join(b"a%d=1" % n for n in range(count)) + b">x"


HOSTILE: dict[str, tuple[str, bytes]] = {
    "attributes": (CSS, attributes(300_000)),
    "attributes behind a quoted sign": (CSS, b'<p x="<script>" ' + attributes(200_000)[3:]),
    "many elements of some attributes": (CSS, attributes(900) * 300),
    "attributes, by XPath": ("{xpath: //h1}", attributes(200_000)),
    "paragraphs of a class": ("{css: .q}", b"<p class=p>" * 400_000),
    "siblings that are counted": ("{css: 'td:nth-child(2)'}", b"<table><tr>" + b"<td>x" * 60_000),
    "siblings before siblings": ("{css: 'div:nth-of-type(2) ~ div ~ p'}", b"<div>x</div>" * 30_000),
    "siblings within each other": ("{css: ':has(~ i ~ .x)'}", b"<i>x</i>" * 9_000),
    "depth": ("{css: '.x div div div p'}", b"<div>" * 9_000 + b"<p>x"),
    "depth and a child": ("{css: '.x div div > p'}", b"<div>" * 9_000 + b"<p>x"),
    "lists within lists": (CSS, b"<ul><li>" * 60_000),
    "texts of texts": ("{css: div, many: true}", b"<div>a" * 9_500),
    "XPath that looks back": ("{xpath: '//p[count(preceding::p) > 9]'}", b"<p>x" * 9_000),
    "XPath in XPath": ("{xpath: '//div//div//div//p'}", b"<div>" * 1_900 + b"<p>x"),
    "XPath within many": ("{xpath: '//div//p', many: true}", b"<div>" * 240 + b"<p>x" * 9_000),
    "XPath of many in one each": ("{xpath: '//i//b', many: true}", b"<i><b></b></i>" * 4_000),
    "a regular expression of XPath": (
        """{xpath: '//p[re:test(., "^(a+)+$")]'}""",
        b"<p>" + b"a" * 40 + b"!",
    ),
    "formatting that each block repeats": (
        CSS,
        b"<p>" + b"".join(b"<b a%d>" % n for n in range(2_500)) + b"</p><p>x" * 2_500,
    ),
    "depth of a large page": (CSS, b"<div>" * 30_000),
    "depth that is closed in vain": (CSS, b"<div><object></div></object>" * 14_000),
    "ends of what was never opened": (CSS, b"<svg>" + b"<g>" * 15_000 + b"</x>" * 15_000),
    "options of a list": (CSS, b"<select>" + b"<option>x" * 9_000),
    "options of a large list": (CSS, b"<select>" + b"<OPTION>x" * 50_000),
    "attributes of a repeated tag": (CSS, b"".join(b"<html a%d=1>" % n for n in range(30_000))),
    "formatting with a sign in quotes": (
        CSS,
        b"<p>" + b"".join(b'<b a%d=">x</b>">' % n for n in range(2_500)) + b"</p><p>x" * 2_500,
    ),
    "formatting that a marker protects": (
        CSS,
        b"<p>"
        + b"".join(b"<b a%d><object></b></object>" % n for n in range(2_500))
        + b"</p><p>x" * 2_500,
    ),
    "attributes of a large page": (CSS, b"<p>x</p>" * 6_000 + attributes(120_000)),
    "siblings of a large page": ("{css: 'p:nth-child(2)'}", b"<p>x</p>" * 25_000),
    "siblings of many names": (
        "{css: '.x:first-of-type'}",
        b"".join(b"<x%d class=x></x%d>" % (n, n) for n in range(25_000)),
    ),
    "texts of texts of a large page": ("{css: span, many: true}", b"<span>a" * 50_000),
    "texts in no order, by XPath": ("{xpath: '//p[last()]', many: true}", b"<p>x</p>" * 25_000),
    "depth between places that a fixed step would read": (
        CSS,
        (b"x" * 1_024 + b"<span>" * 512) * 240,
    ),
    "memory": (CSS, b"<p>" * 5_200_000),
}
