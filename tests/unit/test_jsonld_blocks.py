"""JSON-LD found in a page's bytes is what the page's document has."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from scraper.extract import jsonld_blocks

PARTS = [
    *(b"<script>", b'<script type="application/ld+json">', b"<SCRIPT type=ld+json>", b"</script>"),
    *(b"</SCRIPT >", b"<!--", b"-->", b"<!-->", b"{}", b"+", b"ld+json", b"<p>", b" "),
    *(b"+" * 3000, b"LD+JSON", b'<script type="application/LD+Json">'),
]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(b"".join))
@settings(max_examples=400)
def test_scripts_are_those_of_the_document_or_only_that_can_tell(source: bytes) -> None:
    texts = jsonld_blocks.scripts(b"<html><body>" + source)
    if texts is not None:
        document = LexborHTMLParser(b"<html><body>" + source)
        assert texts == [node.text() for node in document.css('script[type*="ld+json" i]')]
