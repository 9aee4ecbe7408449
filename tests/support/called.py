"""A user's module of functions for workers, as the tests of calls use it: what works, and what a
user may do wrong."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from json import dumps as imported  # noqa: F401 - not to be called from outside
from pathlib import Path
from typing import Any

import httpx

POLL_S = 0.02
BIG = 300_000


async def echo(_: httpx.AsyncClient, value: Any) -> Any:
    return value


async def title(client: httpx.AsyncClient, url: str) -> str:
    answer = await client.get(url)
    answer.raise_for_status()
    return answer.text.partition("<title>")[2].partition("</title>")[0]


async def mixed(client: httpx.AsyncClient, given: list[Any]) -> Any:
    """Does what the input says."""
    what, value = given
    match what:
        case "fetch":
            return await title(client, value)
        case "raise":
            raise ValueError(f"{value} \ud800")
        case "set":
            return {value}
        case "big":
            return "x" * value
        case "hang":
            await asyncio.sleep(3600)
        case "exit":
            raise SystemExit(value)
        case "nan":
            return 10**30
    return what


async def when_there(_: httpx.AsyncClient, given: list[Any]) -> list[Any]:
    """Ends once a file is there; says who did it."""
    value, path = given
    while path is not None and not Path(path).exists():
        await asyncio.sleep(POLL_S)
    return [value, os.getpid()]


async def noted(_: httpx.AsyncClient, given: list[Any]) -> int:
    """Leaves a line each time that it is begun; ends once a file is there."""
    value, log, path = given
    with Path(log).open("a") as out:
        out.write(f"{value} {os.getpid()}\n")
    while path is not None and not Path(path).exists():
        await asyncio.sleep(POLL_S)
    return int(value)


async def poison(_: httpx.AsyncClient, value: int) -> int:
    if value == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0.2)
    return value


async def own_client(client: Any, what: str) -> Any:
    """For `make` below."""
    return client[what]


async def redirects(client: httpx.AsyncClient, url: str) -> list[Any]:
    answer = await client.get(url)
    return [answer.status_code, len(answer.history), str(answer.url)]


async def posts(client: httpx.AsyncClient, url: str) -> list[Any]:
    """The sample shop's own switch, and what it says it was switched to."""
    answer = await client.post(f"{url}/_control/options", json={"latency_ms": 1.5})
    return [answer.status_code, answer.json()["latency_ms"]]


async def orders(client: httpx.AsyncClient, given: list[Any]) -> str:
    """Posts once; gives back what came."""
    url, content = given
    answer = await client.post(url, content=content)
    answer.raise_for_status()
    return answer.text


async def puts(client: httpx.AsyncClient, url: str) -> int:
    return (await client.put(url, json={})).status_code


async def stubborn(_: httpx.AsyncClient, value: Any) -> Any:
    """Does not let itself be cancelled."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


def not_async(_: httpx.AsyncClient, value: Any) -> Any:
    return value


async def _private(_: httpx.AsyncClient, value: Any) -> Any:
    return value


class Walk:
    @staticmethod
    async def echo(_: httpx.AsyncClient, value: Any) -> Any:
        return value


@asynccontextmanager
async def make(transport: httpx.AsyncBaseTransport) -> AsyncIterator[dict[str, Any]]:
    """SCRAPER_CLIENT_INIT: leaves word when it is made and closed."""
    log = Path(os.environ["MADE_LOG"])
    with log.open("a") as out:
        out.write(f"made {os.getpid()}\n")
    async with httpx.AsyncClient(transport=transport) as client:
        yield {"pid": os.getpid(), "client": type(client).__name__}
    with log.open("a") as out:
        out.write(f"closed {os.getpid()}\n")


async def shown(page: Any, url: str) -> list[Any]:
    """For browser workers: the page comes blank."""
    before = page.url
    answer = await page.goto(url)
    return [before, answer.status, await page.locator("h1").first.inner_text()]
