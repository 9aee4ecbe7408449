"""A host's gate in this process: a page passes when the fleet's budget has a turn for it, and not before.

The fleet's decision comes from a throttle (`scraper.stores.throttle`) that is asked once for several pages. A turn that
does not come before the batch must end is refused (`DeferredError`), so nobody waits here for longer than a batch lasts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from scraper.errors import DeferredError

SHARE_RENEWED_S = 4.0  # well within the share's time to live
RESERVED_AHEAD_S = 2.0  # more would be lost when answers are slow; fewer would ask more often
RETRY_SHARE_S = 0.25
LATE_S = 0.05  # a slot older than this is given up: using it would crowd the ones after it


class Reserved(Protocol):
    @property
    def first_s(self) -> float: ...
    @property
    def slots(self) -> int: ...
    @property
    def share(self) -> int: ...


class Throttle(Protocol):
    async def reserve(
        self, host: str, *, interval_s: float, slots: int, share: int, inflight: int, concurrency: int
    ) -> Reserved: ...

    async def rest(self, host: str, seconds: float) -> None: ...


class Gate:
    """One host's turns. `interval_s` 0 means no rate; the concurrency is the whole fleet's, the share this process's."""

    def __init__(self, host: str, throttle: Throttle) -> None:
        self.host = host
        self.interval_s = 0.0
        self.concurrency = 1
        self.pending = 0
        self._throttle = throttle
        self._inflight = 0
        self._share = 0
        self._renew_at = 0.0
        self._slots: deque[float] = deque()
        self._door = asyncio.Lock()  # who waits for a share
        self._pace = asyncio.Lock()  # who waits for a slot: apart, since a page inside may need one more request
        self._left = asyncio.Event()

    @property
    def idle(self) -> bool:
        return self._inflight == 0 and self.pending == 0

    def budget(self, interval_s: float, concurrency: int) -> None:
        self.interval_s, self.concurrency = interval_s, concurrency

    @asynccontextmanager
    async def turn(self, latest: float) -> AsyncIterator[None]:
        """Holds one of the host's turns, got before `latest` (loop time). Raises `DeferredError` with when to come back."""
        await self._enter(latest)
        try:
            yield
        finally:
            self._leave()

    async def another(self, latest: float) -> None:
        """One more request within a turn that is held (a redirect, robots.txt): the rate counts it as any other."""
        async with self._pace:
            await self._take_slot(latest)

    async def rest(self, seconds: float) -> None:
        self._slots.clear()
        await self._throttle.rest(self.host, seconds)

    async def release(self) -> None:
        """Gives the share back when nothing is under way."""
        if self.idle and self._share:
            self._share = 0
            self._renew_at = 0.0
            await self._throttle.reserve(
                self.host, interval_s=self.interval_s, slots=0, share=0, inflight=0, concurrency=self.concurrency
            )

    async def _enter(self, latest: float) -> None:
        loop = asyncio.get_running_loop()
        async with self._door:
            while True:
                now = loop.time()
                if now >= latest:
                    raise DeferredError(0.0)
                if now >= self._renew_at:
                    await self._renew(0)
                if self._inflight < self._share:
                    break
                await self._someone_leaves(min(RETRY_SHARE_S, latest - now) if self._share == 0 else latest - now)
            self._inflight += 1
        if self.interval_s:
            try:
                async with self._pace:
                    await self._take_slot(latest)
            except BaseException:
                self._leave()
                raise

    def _leave(self) -> None:
        self._inflight -= 1
        self._left.set()

    async def _someone_leaves(self, timeout_s: float) -> None:
        if self._share == 0:
            self._renew_at = 0.0
        self._left.clear()
        try:
            async with asyncio.timeout(min(timeout_s, SHARE_RENEWED_S)):
                await self._left.wait()
        except TimeoutError:
            pass

    async def _take_slot(self, latest: float) -> None:
        if not self.interval_s:
            return
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            while self._slots and self._slots[0] < now - LATE_S:
                self._slots.popleft()
            if self._slots:
                at = self._slots[0]
                if at > latest:
                    raise DeferredError(at - now)
                self._slots.popleft()
                await asyncio.sleep(max(0.0, at - now))
                return
            wait_s = await self._renew(self._slots_wanted())
            if not self._slots:
                if now + wait_s >= latest:
                    raise DeferredError(wait_s)
                await asyncio.sleep(min(wait_s, 1.0) + 0.001)

    def _slots_wanted(self) -> int:
        return max(1, min(self.pending, int(RESERVED_AHEAD_S / self.interval_s)))

    async def _renew(self, slots: int) -> float:
        """Asks the fleet. Returns the seconds until the host's next free slot."""
        loop = asyncio.get_running_loop()
        got = await self._throttle.reserve(
            self.host,
            interval_s=self.interval_s,
            slots=slots,
            share=max(1, min(self.pending, self.concurrency)),
            inflight=self._inflight,
            concurrency=self.concurrency,
        )
        answered = loop.time()
        self._share = got.share
        self._renew_at = answered + SHARE_RENEWED_S
        self._slots.extend(answered + got.first_s + i * self.interval_s for i in range(got.slots))
        return got.first_s


class Gates:
    """The gates of this process, made when first needed and swept when idle."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._gates: dict[str, Gate] = {}

    def of(self, host: str) -> Gate:
        gate = self._gates.get(host)
        if gate is None:
            gate = self._gates[host] = Gate(host, self._throttle)
        return gate

    async def sweep(self) -> None:
        """Gives back the shares of idle hosts, so that other processes may use them at once."""
        for host, gate in list(self._gates.items()):
            if gate.idle:
                await gate.release()
                if gate.idle:
                    self._gates.pop(host, None)
