"""The transport's request head: what is sent, and what is refused."""

from __future__ import annotations

import httpx
import pytest

from scraper.fetch.transport import request_head


def test_a_head_is_the_target_the_host_and_the_fields() -> None:
    head = request_head(b"/a?b=c", "shop.example:8080", [(b"Accept", b"*/*"), (b"X", b"1")])
    assert head == b"GET /a?b=c HTTP/1.1\r\nHost: shop.example:8080\r\nAccept: */*\r\nX: 1\r\n\r\n"


def test_a_host_field_of_the_site_takes_the_place_of_ours() -> None:
    assert request_head(b"/", "a.example", [(b"host", b"b.example")]).count(b"example") == 1


@pytest.mark.parametrize("value", [b"a\r\nX-Evil: 1", b"a\nb", b"a\rb", b"a\0b"])
def test_no_field_breaks_out_of_its_line(value: bytes) -> None:
    with pytest.raises(httpx.LocalProtocolError):
        request_head(b"/", "a.example", [(b"If-None-Match", value)])
