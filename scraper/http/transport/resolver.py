"""Resolves names to addresses that the guard allows, for transports that name an address before
they connect.

Looks a name up once in `ttl_s` for all callers, off the loop. Opens no connection.
"""

from __future__ import annotations

import asyncio
import socket

import httpx
from aiohttp.abc import AbstractResolver

from scraper.http.transport import guard
from scraper.http.transport.guard import ForbiddenAddressError, GuardedResolver, Networks

NAMES_MAX = 5000
# More addresses of one name would only delay the error of a host that is down.
ADDRESSES_MAX = 8


class AddressCache:
    """The guarded addresses of names. One per transport, on its loop. Forgets everything once it
    knows `NAMES_MAX` names."""

    def __init__(self, resolver: AbstractResolver, private: Networks, *, ttl_s: float) -> None:
        self._resolver = GuardedResolver(resolver, private)
        self._private = private
        self._ttl_s = ttl_s
        self._cached: dict[str, tuple[float, asyncio.Task[list[str]]]] = {}

    async def first_address(self, host: str) -> str:
        return (await self.addresses(host))[0]

    async def addresses(self, host: str) -> list[str]:
        """Returns a host's addresses, IPv4 first. Raises `ForbiddenAddressError`, or
        httpx.ConnectError if the name has no address."""
        literal = host.strip("[]")
        if ":" in literal or literal.replace(".", "").isdigit():
            reason = guard.forbidden_reason(literal, self._private)
            # 127.1 and its like are what they resolve to.
            if reason == "not an IP address":
                return await self._look_up(literal)
            if reason is not None:
                raise ForbiddenAddressError(literal, reason)
            return [literal]
        return await self._look_up(literal)

    async def _look_up(self, host: str) -> list[str]:
        now = asyncio.get_running_loop().time()
        until, task = self._cached.get(host, (0.0, None))
        if task is None or now >= until:
            if len(self._cached) >= NAMES_MAX:
                self._cached.clear()
            task = asyncio.ensure_future(self._resolve_host(host))
            task.add_done_callback(_retrieve_error)
            self._cached[host] = (now + self._ttl_s, task)
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._cached.pop(host, None)
            if isinstance(error, ForbiddenAddressError):
                raise
            raise httpx.ConnectError(str(error) or type(error).__name__) from error

    async def _resolve_host(self, host: str) -> list[str]:
        answers = await self._resolver.resolve(host, 0, socket.AF_UNSPEC)
        ordered = sorted(answers, key=lambda answer: answer["family"])
        return list(dict.fromkeys(str(answer["host"]) for answer in ordered))[:ADDRESSES_MAX]


def _retrieve_error(task: asyncio.Task[list[str]]) -> None:
    """Marks the error as seen: all callers may have been cancelled."""
    if not task.cancelled():
        task.exception()
