"""Pages that are made to take long to survey: twice the page takes at most about twice the steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from scraper.extract.document import Document
from scraper.extract.heuristics.state_fields import find_field_paths
from scraper.plugins.author.discovery.fields import labels
from scraper.plugins.author.discovery.fields.labels import find_labelled
from scraper.plugins.author.discovery.listings.page_numbers import (
    Numbering,
    counts_more,
    find_page_counts,
)
from scraper.rules.decoding import clean_text
from tests.unit.extract.extracting import URL, fetched


def count_calls(function: Callable[[], object]) -> int:
    """Returns how many calls the function makes, of Python's and C's functions."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def document(body: str) -> Document:
    return Document(fetched(body, content_type="text/html"), URL)


@pytest.mark.parametrize(
    "body",
    [
        lambda size: "<div>" * size + "text",
        lambda size: "<div><p>Price</p>" * size,
        lambda size: "<p>Price</p><div>" * size,
        lambda size: "<div>" * size + "<p>Price</p><p>" + "text " * 100_000,
    ],
)
def test_labels_take_steps_by_the_size_of_the_page(body: Callable[[int], str]) -> None:
    pages = [document(body(size)) for size in (300, 600)]
    first, second = (
        count_calls(lambda page=page: list(find_labelled(page, frozenset())))  # type: ignore[misc]
        for page in pages
        if page.dom
    )
    assert second < 2.5 * first


@pytest.mark.parametrize("body", ["<div>", "<div><p>1</p>"])
def test_counts_of_pages_take_steps_by_the_size_of_the_page(body: str) -> None:
    pages = [document(body * size + "<p>1-20 of 71</p>") for size in (300, 600)]
    for page in pages:
        assert counts_more(page, 20)
    first, second = (
        count_calls(lambda page=page: find_page_counts(page, Numbering(1, 1, param="p")))  # type: ignore[misc]
        + count_calls(lambda page=page: counts_more(page, 5))  # type: ignore[misc]
        for page in pages
    )
    assert second < 2.5 * first


def test_labels_read_texts_by_the_size_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def clean_counting(text: str) -> str:
        nonlocal read
        read += len(text)
        return clean_text(text)

    monkeypatch.setattr(labels, "clean_text", clean_counting)
    page = document("<p>Price</p><div>" * 300 + "text " * 100_000)
    assert list(find_labelled(page, frozenset()))
    assert read < 10 * len(page.page.body)


def test_a_label_names_the_next_element_however_deep_its_text_is() -> None:
    deep = f"<dt>Price</dt><dd>{'<i>' * 30}12</dd><dt>Brand</dt><dd><img alt=Kitano></dd>"
    assert [labelled.source for labelled in find_labelled(document(deep), frozenset())] == [
        {"css": 'dt:contains("Price") + dd'},
        {"css": 'dt:contains("Brand") + dd img::attr(alt)'},
    ]


def test_products_in_state_take_steps_by_their_number() -> None:
    def documents(size: int) -> list[Any]:
        return [{f"k{at}": {"name": "K", "price": "1"} for at in range(size)}]

    first, second = (
        count_calls(lambda size=size: list(find_field_paths("price", documents(size))))  # type: ignore[misc]
        for size in (1000, 2000)
    )
    assert second < 2.5 * first


def test_a_document_with_a_name_is_read_once() -> None:
    product = {"name": "K", "price": "1"}
    for others, paths in (([product], ["app.price"]), ([dict(product)], ["price", "app.price"])):
        assert [
            path.path for path in find_field_paths("price", [{"app": product}, *others])
        ] == paths
