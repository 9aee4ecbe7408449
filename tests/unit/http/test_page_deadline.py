"""A page's time, and the waits that do not count against it."""

from __future__ import annotations

import asyncio

import pytest

from scraper.http.fetcher import _PageRequests
from scraper.http.policy import FetchPolicy
from scraper.http.request import split_url
from scraper.http.transport.guard import PrivateAccess

POLICY = FetchPolicy(
    user_agent="test",
    headers={},
    private=PrivateAccess(),
    allowed=None,
    body_max_bytes=1000,
    wire_max_bytes=1000,
    redirects_max=1,
    connect_timeout_s=1,
    read_timeout_s=1,
    page_timeout_s=1,
)


def make_page() -> _PageRequests:
    return _PageRequests(
        url=split_url("http://shop.example/"),
        policy=POLICY,
        headers=[],
        conditions=[],
        jar=None,
        body=None,
        held_body=None,
        extensions={},
    )


def test_a_wait_does_not_count() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        began, page = loop.time(), make_page()

        async def fetch() -> None:
            async with asyncio.timeout(0.1) as page.deadline:
                await page.pause(asyncio.sleep(0.2))
                assert page.waited_s >= 0.2 and not page.deadline.expired()
                await asyncio.sleep(10)

        with pytest.raises(TimeoutError):
            await fetch()
        assert page.deadline.expired()
        assert 0.3 <= loop.time() - began < 5

    asyncio.run(work())


def test_a_page_that_is_cancelled_while_it_waits_stays_cancelled() -> None:
    async def work() -> None:
        page = make_page()

        async def fetch() -> None:
            async with asyncio.timeout(0.01) as page.deadline:
                await page.pause(asyncio.sleep(10))

        task = asyncio.ensure_future(fetch())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not page.deadline.expired()

    asyncio.run(work())


def test_a_wait_that_begins_after_the_deadline_ends_the_page() -> None:
    async def work() -> None:
        page = make_page()

        async def fetch() -> None:
            async with asyncio.timeout(0) as page.deadline:
                try:
                    await asyncio.sleep(10)
                finally:
                    await page.pause(asyncio.sleep(0))

        with pytest.raises(TimeoutError):
            await fetch()

    asyncio.run(work())
