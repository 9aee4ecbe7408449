"""Where an XPath is answered, and that it is answered alike everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree

from scraper.domain import Fetched
from scraper.extract.bounds import ISOLATED, ON_LOOP, ReadElsewhere
from scraper.extract.document import Document
from scraper.rules.decoding import parse_html
from scraper.sites.grammar.selectors import compile_xpath

NAVS = b"<nav><a href=/1>one</a><p><a href=/2>two</a></nav><nav id=a><a>three</a></nav>"
PAGE = Fetched("https://shop.example/", 200, {}, NAVS + b"<h6>x</h6>" * 900)


@pytest.mark.parametrize(
    ("xpath", "on_loop"),
    [
        ("//nav//a", True),
        ("//nav[1]//a/@href", True),
        ("//nav//a[1]/text()", True),
        ("//nav[.='three']//a", True),
        ("//nav[p[a]]//a[1]", True),
        ("//table//td", True),
        ("//body//nav[@id='//a' or @id='a']", True),
        ("//body[@class=']//a' or 1]//p", True),
        ("//nav//p//a", False),
        ("//nav/@id//a", False),
        ("//a/text()//b", False),
        ("(//nav//a)[2]", False),
        ("//nav//a | //p", False),
        ("//nav[.//a]//a", False),
        ("//p[count(//p) > 1]//a", False),
    ],
)
def test_a_path_within_few_elements_is_answered_at_once_and_as_a_whole(
    xpath: str, on_loop: bool
) -> None:
    whole = texts(etree.XPath(xpath)(parse_html(PAGE.body)))
    compiled = compile_xpath(xpath)
    assert texts(Document(PAGE, PAGE.url, ISOLATED).xpath(compiled)) == whole
    try:
        answer = Document(PAGE, PAGE.url, ON_LOOP).xpath(compiled)
    except ReadElsewhere:
        assert not on_loop
    else:
        assert on_loop and texts(answer) == whole


def texts(result: list[Any]) -> list[str]:
    return [
        node if isinstance(node, str) else etree.tostring(node, with_tail=False).decode()
        for node in result
    ]
