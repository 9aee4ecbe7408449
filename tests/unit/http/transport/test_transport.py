"""The transport's request head, and the one timer of a connection."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import aiohttp
import httpx
import pytest

from scraper.http.transport.aiohttp_protocol import ResponseProtocol
from scraper.http.transport.aiohttp_transport import request_head


def test_a_head_is_the_target_the_host_and_the_fields() -> None:
    head = request_head(b"/a?b=c", "shop.example:8080", [(b"Accept", b"*/*"), (b"X", b"1")])
    assert head == b"GET /a?b=c HTTP/1.1\r\nHost: shop.example:8080\r\nAccept: */*\r\nX: 1\r\n\r\n"


def test_a_host_field_of_the_site_replaces_the_default() -> None:
    assert request_head(b"/", "a.example", [(b"host", b"b.example")]).count(b"example") == 1


@pytest.mark.parametrize("value", [b"a\r\nX-Evil: 1", b"a\nb", b"a\rb", b"a\0b"])
def test_no_field_breaks_out_of_its_line(value: bytes) -> None:
    with pytest.raises(httpx.LocalProtocolError):
        request_head(b"/", "a.example", [(b"If-None-Match", value)])


def _asks(protocol: ResponseProtocol, read_timeout_s: float) -> None:
    protocol.set_response_params(read_timeout=read_timeout_s)
    protocol.start_timeout()


def test_a_kept_connection_has_the_patience_of_its_present_request() -> None:
    async def silent() -> None:
        protocol = ResponseProtocol(loop=asyncio.get_running_loop())
        protocol.transport = Mock()
        _asks(protocol, 60)
        protocol._drop_timeout()  # it was answered
        _asks(protocol, 0.01)
        async with asyncio.timeout(10):
            with pytest.raises(aiohttp.ServerTimeoutError):
                await protocol.read()

    asyncio.run(silent())


def test_an_answer_that_came_stops_the_clock() -> None:
    async def answered() -> None:
        protocol = ResponseProtocol(loop=asyncio.get_running_loop())
        protocol.transport = Mock()
        _asks(protocol, 0.01)
        protocol._drop_timeout()
        await asyncio.sleep(0.05)
        assert protocol.exception() is None
        _asks(protocol, 0.01)  # and it starts again
        async with asyncio.timeout(10):
            with pytest.raises(aiohttp.ServerTimeoutError):
                await protocol.read()

    asyncio.run(answered())
