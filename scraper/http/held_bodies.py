"""Bounds the bytes of the bodies that a process holds, from their first bytes until they are read.

A large body is received while there is room. Otherwise the rest stays with its server, whose
connection fills up. This bounds memory however many pages are under way, since some bodies wait for
the process that reads them (`scraper.extract.subprocess`). If every body were half received, none
would ever be read: the first of them is received whole."""

from __future__ import annotations

import asyncio

HELD_MAX_BYTES = 64_000_000
# A body up to this size never waits: all that can be under way come to 32 MB.
SMALL_BYTES = 65_536


class HeldBodies:
    """The bodies of one process, counted on its loop: `HELD_MAX_BYTES` of large ones, one more
    piece of each that was on its way, and one whole body."""

    def __init__(self, max_bytes: int = HELD_MAX_BYTES) -> None:
        self.held = 0
        self._max_bytes = max_bytes
        # These are received whole, and their readers will free them.
        self._whole: set[HeldBody] = set()
        self._first: HeldBody | None = None
        self._changed = asyncio.Event()

    def is_full_for(self, body: HeldBody) -> bool:
        """Returns whether the body has to wait for room. Lets it through as the first one if
        nothing else would make room."""
        if self.held < self._max_bytes or self._first is body:
            return False
        if self._first is None and not self._whole:
            self._first = body
            return False
        return True

    async def wait_for_room(self, body: HeldBody) -> None:
        while self.is_full_for(body):
            self._changed.clear()
            await self._changed.wait()

    def resize(self, body: HeldBody, size: int, *, whole: bool = False) -> None:
        self.held += size - body.size
        body.size = size
        if whole:
            self._whole.add(body)
        else:
            self._whole.discard(body)
        if not size and self._first is body:
            self._first = None
        if self.held < self._max_bytes or (self._first is None and not self._whole):
            self._changed.set()


class HeldBody:
    """One page's body."""

    __slots__ = ("_bodies", "size")

    def __init__(self, bodies: HeldBodies) -> None:
        self._bodies = bodies
        self.size = 0

    def grow(self, size: int) -> bool:
        """Records the bytes received so far. Returns whether the rest must `wait_for_room`."""
        self._bodies.resize(self, size)
        return self._bodies.is_full_for(self)

    async def wait_for_room(self) -> None:
        await self._bodies.wait_for_room(self)

    def complete(self, size: int) -> None:
        """Records that the body is received and unpacked."""
        if size > SMALL_BYTES:
            self._bodies.resize(self, size, whole=True)

    def release(self) -> None:
        """Records that the body was read, or never will be."""
        if self.size:
            self._bodies.resize(self, 0)
