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

NESTED = b"<div><b>1</b><div><b>2</b><div><b>3</b></div></div><b>4</b></div><div><b>5</b></div>"
NAVS = b"<nav><a href=/1>one</a><p><a href=/2>two</a></nav><nav id=a><a>three</a></nav>"
PAGE = Fetched("https://shop.example/", 200, {}, NAVS + NESTED + b"<h6>x</h6>" * 900)


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
        ("//nav//a/..", True),
        ("//div//b", True),
        ("//div//b[1]/text()", True),
        ("//nav//a/../..", False),
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


CLASS = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
CLASSES = b"""<body class=price><p class="price">1</p><p class="old price
    now">2<b class=price>3</b></p><p class=prices>4</p><p class=Price>5</p><p class="">6</p>
    <p>7</p><div class=price><p>8</p><svg class=price><title>9</title></svg></div>
    <p class="price" title="contains(@class, 'x')">10</p>"""


@pytest.mark.parametrize(
    "xpath",
    [
        f"//*[{CLASS.format('price')}]",
        f"//p[ {CLASS.format('price')} ]",
        f".//p[{CLASS.format('price')}]",
        f"//p[{CLASS.format('price')}][2]",
        f"(//p[{CLASS.format('price')}])[2]/text()",
        f"//p[{CLASS.format('price')}]/@class",
        f"//p[{CLASS.format('old')}]//b[{CLASS.format('price')}]",
        f"//*[{CLASS.format('price')}]//*[{CLASS.format('price')}]",
        f"//p[{CLASS.format('price')} and @title]",
        f"//p[not({CLASS.format('price')})]",
        f"//body[{CLASS.format('price')}]/div[{CLASS.format('price')}]/p",
        f'//p[@title="//p[{CLASS.format("price")}]"]',
        '//p[contains(concat(" ",@class," "), " price ")]',
        f"string(//p[{CLASS.format('now')}])",
        f"//p[{CLASS.format('none')}]",
    ],
)
def test_a_class_is_found_in_a_quicker_way_with_the_same_result(xpath: str) -> None:
    root = parse_html(CLASSES)
    plain = etree.XPath(xpath, smart_strings=False)(root)
    compiled = compile_xpath(xpath)
    assert compiled.path == xpath
    assert compiled(root) == plain
    page = Fetched("https://shop.example/", 200, {}, CLASSES)
    answer = Document(page, page.url, ISOLATED).xpath(compiled)
    assert answer == plain if isinstance(plain, str) else texts(answer) == texts(plain)


def texts(result: list[Any]) -> list[str]:
    return [
        node if isinstance(node, str) else etree.tostring(node, with_tail=False).decode()
        for node in result
    ]
