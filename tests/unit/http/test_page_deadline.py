"""A page's time, and the waits that do not count against it."""

from __future__ import annotations

import asyncio
import time

import pytest

from scraper.http.fetcher import _PageRequests
from scraper.http.policy import FetchPolicy
from scraper.http.request import split_url
from scraper.http.transport.deadline import Deadline
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
            async with Deadline(0.1) as page.deadline:
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
            async with Deadline(0.01) as page.deadline:
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
            async with Deadline(0) as page.deadline:
                try:
                    await asyncio.sleep(10)
                finally:
                    await page.pause(asyncio.sleep(0))

        with pytest.raises(TimeoutError):
            await fetch()

    asyncio.run(work())


def test_a_standstill_of_the_loop_does_not_end_a_page() -> None:
    async def work() -> None:
        async with Deadline(0.1) as deadline:
            asyncio.get_running_loop().call_soon(time.sleep, 0.5)
            # This is due in the same turn of the loop as the deadline.
            await asyncio.sleep(0.2)
        assert not deadline.expired()
        assert deadline.stalled_s >= 0.3

    asyncio.run(work())


def test_what_comes_in_the_last_turn_is_taken() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        async with Deadline(0.1) as deadline:
            when = deadline.when()
            assert when is not None
            # Timers this close to each other run in one turn of the loop.
            loop.call_at(when - 1e-6, answer.set_result, b"in time")
            assert await answer == b"in time"
        assert not deadline.expired()

    asyncio.run(work())


def test_a_page_ends_even_on_a_loop_that_is_always_late() -> None:
    async def work() -> None:
        async with Deadline(0.2):
            while True:
                time.sleep(0.15)
                await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        asyncio.run(work())


def test_a_page_ends_after_a_standstill_if_nothing_comes() -> None:
    async def work() -> None:
        async with Deadline(0.1):
            asyncio.get_running_loop().call_soon(time.sleep, 0.3)
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        asyncio.run(work())
