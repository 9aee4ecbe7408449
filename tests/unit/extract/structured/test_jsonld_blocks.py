"""JSON-LD found in a page's bytes is what the page's document has."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from scraper.domain import Fetched
from scraper.extract.document import Document
from scraper.extract.structured import jsonld_blocks
from scraper.extract.structured.jsonld_blocks import load_json
from scraper.rules.decoding import decode_page
from tests.support.machine import examples

PARTS = [
    *(b"<script>", b'<script type="application/ld+json">', b"<SCRIPT type=ld+json>", b"</script>"),
    *(b"</SCRIPT >", b"<!--", b"-->", b"<!-->", b"{}", b"+", b"ld+json", b"<p>", b" "),
    *(b"+" * 3000, b"!", b"!" * 3000, b"LD+JSON", b'<script type="application/LD+Json">'),
]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(b"".join))
@settings(max_examples=examples(400))
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
@settings(max_examples=examples(400))
def test_a_page_that_is_not_what_it_says_reads_as_its_document_does(
    source: bytes, charset: str, meta: bytes
) -> None:
    headers = {"content-type": "text/html" + charset}
    page = Fetched("https://shop.example/", 200, headers, b"<html><head>" + meta + source)
    document = LexborHTMLParser(decode_page(page.body, page.headers["content-type"]).utf8)
    texts = [node.text() for node in document.css('script[type*="ld+json" i]')]
    assert Document(page, page.url).jsonld == jsonld_blocks.collect_objects(texts)


QUOTED = (
    '{"@type":"Product","brand":{"@type":"Brand","name":"A"B" Co"},"description":"wide, '
    '\\"good\\", "cheap"","sku":"TV-27"","name":"27" TV, "black"","image":"http://s//i",'
    '"offers":{"@type":"Offer","price":"12.50","priceCurrency":"GBP"}}'
)


def test_quotes_inside_texts_are_read() -> None:
    product = load_json(QUOTED)
    assert product["name"] == '27" TV, "black"' and product["sku"] == 'TV-27"'
    assert product["brand"]["name"] == 'A"B" Co' and product["image"] == "http://s//i"
    assert product["description"] == 'wide, "good", "cheap"'
    assert product["offers"]["price"] == "12.50"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"name":"a "b"} c","price":"1"}', id="the end of an object"),
        pytest.param('{"names":["a "b"", "c"],"price":"1"}', id="in a list"),
        pytest.param('{"name":"a "b","price":"1', id="cut off"),
        pytest.param('{"name":"a "b"; "sku":"2","price":"1"}', id="a key inside"),
    ],
)
def test_quotes_that_may_end_elsewhere_give_nothing(text: str) -> None:
    assert load_json(text) is None


def test_a_number_beyond_all_bounds_is_an_empty_text() -> None:
    assert load_json('{"a": 1e99999999999999999999, "b": 1.50}') == {"a": "", "b": "1.50"}
