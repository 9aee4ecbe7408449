"""A host's gate in this process: a page passes when the fleet's budget has a turn for it, and not before.

The fleet's decision comes from a throttle (`scraper.stores.throttle`) that is asked once for several pages. A turn that
does not come before the batch must end is refused (`DeferredError`), so nobody waits here for longer than a batch lasts.
Of the pages that wait the most urgent goes first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from scraper.errors import DeferredError
from scraper.fetch.urgent_lock import UrgentLock

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
    """One host's turns. `interval_s` 0 means no rate; the concurrency is the whole fleet's, the share this process's.

    `pending` is how many pages this process has yet to do for the host; whoever has them counts it up and down.
    """

    def __init__(self, host: str, throttle: Throttle) -> None:
        self.host = host
        self.concurrency = 1
        self.pending = 0
        self._site_interval_s = 0.0
        self._crawl_delay_s = 0.0
        self._throttle = throttle
        self._inflight = 0
        self._share = 0
        self._wanted = 0
        self._renew_at = 0.0
        self._rests_until = 0.0  # for a host without a rate, which has no slots to wait for
        self._slots: deque[float] = deque()
        self._door = UrgentLock()  # who waits for a share
        self._pace = UrgentLock()  # who waits for a slot: apart, since a page inside may need one more request
        self._left = asyncio.Event()

    @property
    def idle(self) -> bool:
        return self._inflight == 0 and self.pending == 0

    @property
    def interval_s(self) -> float:
        return max(self._site_interval_s, self._crawl_delay_s)

    def budget(self, interval_s: float, concurrency: int) -> None:
        """What the site definition allows."""
        self._site_interval_s, self.concurrency = interval_s, concurrency

    def crawl_delay(self, seconds: float) -> None:
        """What robots.txt asks for; it counts where it is longer than the definition's interval. Slots that were
        reserved at a faster pace are given up."""
        if seconds != self._crawl_delay_s:
            self._crawl_delay_s = seconds
            self._slots.clear()

    @asynccontextmanager
    async def turn(self, latest: float, urgency: int = 0) -> AsyncIterator[None]:
        """Holds one of the host's turns, got before `latest` (loop time). Raises `DeferredError` with when to come back."""
        await self._enter(latest, urgency)
        try:
            yield
        finally:
            self._leave()

    async def another(self, latest: float, urgency: int = 0) -> None:
        """One more request within a turn that is held (a redirect, robots.txt): the rate counts it as any other."""
        async with self._pace.held(urgency, latest):
            await self._take_slot(latest)

    async def rest(self, seconds: float) -> None:
        """The host asked for a pause. Slots that other processes hold already (`RESERVED_AHEAD_S`) may still be used."""
        self._slots.clear()
        self._rests_until = asyncio.get_running_loop().time() + seconds
        await self._throttle.rest(self.host, seconds)

    async def keep(self) -> None:
        """Renews the share of requests that take long, when no page comes in that would; gives back one not needed."""
        if self.idle:
            if self._share:
                self._share = 0
                self._renew_at = 0.0
                await self._throttle.reserve(
                    self.host, interval_s=self.interval_s, slots=0, share=0, inflight=0, concurrency=self.concurrency
                )
        elif self._inflight and asyncio.get_running_loop().time() >= self._renew_at:
            await self._renew(0)

    async def _enter(self, latest: float, urgency: int) -> None:
        loop = asyncio.get_running_loop()
        async with self._door.held(urgency, latest):
            while True:
                now = loop.time()
                if now >= latest:
                    raise DeferredError(0.0)
                if now >= self._renew_at or (self._inflight >= self._share and self._wants > self._wanted):
                    await self._renew(0)
                if self._inflight < self._share:
                    break
                await self._someone_leaves(min(RETRY_SHARE_S, latest - now) if self._share == 0 else latest - now)
            self._inflight += 1
        try:
            async with self._pace.held(urgency, latest):
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
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if not self.interval_s:
                wait_s = self._rests_until - now
                if wait_s <= 0:
                    return
                if self._rests_until >= latest:
                    raise DeferredError(wait_s)
                await asyncio.sleep(wait_s)
                continue
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
                await asyncio.sleep(min(max(wait_s, LATE_S), 1.0))

    @property
    def _wants(self) -> int:
        return max(1, min(self.pending, self.concurrency))

    def _slots_wanted(self) -> int:
        return max(1, min(self.pending, int(RESERVED_AHEAD_S / self.interval_s)))

    async def _renew(self, slots: int) -> float:
        """Asks the fleet. Returns the seconds until the host's next free slot."""
        loop = asyncio.get_running_loop()
        interval_s, wanted = self.interval_s, self._wants
        got = await self._throttle.reserve(
            self.host,
            interval_s=interval_s,
            slots=slots,
            share=wanted,
            inflight=self._inflight,
            concurrency=self.concurrency,
        )
        answered = loop.time()
        self._share, self._wanted = got.share, wanted
        too_much = self._inflight > got.share  # others wait for what is given up as soon as it is said
        self._renew_at = answered + (RETRY_SHARE_S if too_much else SHARE_RENEWED_S)
        if interval_s:
            self._slots.extend(answered + got.first_s + i * interval_s for i in range(got.slots))
        else:
            self._rests_until = answered + got.first_s
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
        """Called every few seconds. Gives back the shares of idle hosts, so that other processes may use them at once,
        and renews those of hosts whose answers take long. A throttle that is away changes nothing: shares run out."""
        with suppress(DeferredError):
            for host, gate in list(self._gates.items()):
                await gate.keep()
                if gate.idle:
                    self._gates.pop(host, None)
