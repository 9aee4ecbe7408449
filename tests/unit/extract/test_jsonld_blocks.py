"""JSON-LD found in a page's bytes is what the page's document has."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.extract.structured import jsonld_blocks
from scraper.rules.decoding import decode_page

PARTS = [
    *(b"<script>", b'<script type="application/ld+json">', b"<SCRIPT type=ld+json>", b"</script>"),
    *(b"</SCRIPT >", b"<!--", b"-->", b"<!-->", b"{}", b"+", b"ld+json", b"<p>", b" "),
    *(b"+" * 3000, b"LD+JSON", b'<script type="application/LD+Json">'),
]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(b"".join))
@settings(max_examples=400)
def test_scripts_are_those_of_the_document_where_only_it_shows_them(source: bytes) -> None:
    texts = jsonld_blocks.find_scripts(b"<html><body>" + source)
    if texts is not None:
        document = LexborHTMLParser(b"<html><body>" + source)
        assert texts == [node.text() for node in document.css('script[type*="ld+json" i]')]


BROKEN = [
    *(b'<script type="application/ld+json">{"a": "', "é".encode(), b"\xe9", b"\xff", b"\xc3"),
    *(b'"}</script>', b"<p>", b"+"),
]


@given(
    st.lists(st.sampled_from(BROKEN), max_size=14).map(b"".join),
    st.sampled_from(["; charset=utf-8", "; charset=iso-8859-1", ""]),
    st.sampled_from([b"", b"<meta charset=utf-8>", b"<meta charset=iso-8859-1>"]),
)
@settings(max_examples=400)
def test_a_page_that_is_not_what_it_says_reads_as_its_document_does(
    source: bytes, charset: str, meta: bytes
) -> None:
    headers = {"content-type": "text/html" + charset}
    page = Fetched("https://shop.example/", 200, headers, b"<html><head>" + meta + source)
    document = LexborHTMLParser(decode_page(page.body, page.headers["content-type"]).utf8)
    texts = [node.text() for node in document.css('script[type*="ld+json" i]')]
    assert Document(page, page.url).jsonld == jsonld_blocks.collect_objects(texts)
