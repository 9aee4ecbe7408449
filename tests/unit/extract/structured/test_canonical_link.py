"""The canonical link of a page, from its bytes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from scraper.extract.structured.metas import find_canonical


@pytest.mark.parametrize(
    ("html", "href"),
    [
        (b'<link rel="canonical" href="/p/1?a=1&amp;b=2">', "/p/1?a=1&b=2"),
        (b"<LINK href=/p/1 REL='canonical'>", "/p/1"),
        (b"<link rel = canonical\n href = '/p/1' />", "/p/1"),
        (b"<link rel=icon href=/i><link rel=canonical href=/p/1>", "/p/1"),
        (b"<link rel=canonical><link rel=canonical href=/p/1>", "/p/1"),
        (b'<link rel="canonical" href="">', ""),
        (b"<link rel=alternate href=/p/1>", None),
        (b"<link rel=canonicals href=/p/1>", None),
        (b"<link data-rel=canonical href=/p/1>", None),
        (b"", None),
    ],
)
def test_the_first_canonical_link_counts(html: bytes, href: str | None) -> None:
    assert find_canonical(html) == href


def cpu_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


@pytest.mark.parametrize(
    "html",
    [
        b"<link " * 33_000,
        b"<link x=' " * 20_000,
        b"<link" + b" rel=canonical" * 14_000,
        b"<link" + b" " * 199_000,
        (b"<link rel=canonical href" + b" " * 1_000) * 190,
    ],
    ids=["tags without an end", "quotes", "rel again and again", "spaces", "href and spaces"],
)
def test_a_hostile_page_takes_linear_time(html: bytes) -> None:
    """Before, each tag was searched to the end of the page, which took half a minute."""
    tags = re.compile(rb"<link[^<>]*")
    reference_s = min(cpu_s(lambda: [tags.findall(html) for _ in range(10)]) for _ in range(3))
    assert min(cpu_s(lambda: find_canonical(html)) for _ in range(3)) < 20 * reference_s + 0.01
