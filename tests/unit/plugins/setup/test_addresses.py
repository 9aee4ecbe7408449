"""Addresses in texts that people paste."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.plugins.setup.addresses import parse_addresses


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("shop.example", ["https://shop.example/"]),
        ("  http://shop.example/all?page=1#top  ", ["http://shop.example/all?page=1"]),
        ("https://a.example/\n\r\nhttps://a.example/\nb.example/x", ["https://a.example/", "https://b.example/x"]),
        ("Shop\thttps://a.example/\t4.5\nOther;b.example;3", ["https://a.example/", "https://b.example/"]),
        ('"https://a.example/"', ["https://a.example/"]),
        ("localhost:8800", ["https://localhost:8800/"]),
    ],
)  # fmt: skip
def test_addresses_of_a_list_and_of_a_spreadsheet(text: str, urls: list[str]) -> None:
    assert parse_addresses(text).urls == urls


@pytest.mark.parametrize(
    "line",
    ["kettles", "--help", "file:///etc/passwd", "javascript:alert(1)", "ftp://a.example/", "http://me:secret@a.example/", "-o../x"],
)  # fmt: skip
def test_lines_without_an_address_are_named(line: str) -> None:
    pasted = parse_addresses(f"{line}\nshop.example")
    assert pasted.urls == ["https://shop.example/"] and len(pasted.refused) == 1
    assert line in pasted.refused[0]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://localhost:1/", "http://10.0.0.1/a", "http://[::1]/"]
)
def test_addresses_of_the_own_network_can_be_refused(url: str) -> None:
    assert parse_addresses(url).urls == [url]
    assert parse_addresses(url, private=False).urls == []


@given(st.text(max_size=300))
def test_any_text_gives_addresses_that_are_not_options(text: str) -> None:
    assert all(url.startswith(("http://", "https://")) for url in parse_addresses(text).urls)
