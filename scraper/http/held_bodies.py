"""The bodies that a process holds, from their first bytes until they have been read: how much that
is, and who receives no more meanwhile.

A large body is received on while there is room, and else stays with its server, whose connection is
full. So it is bounded in bytes, however many pages are under way: some wait for a process that
reads them (`scraper.extract.subprocess`). Where every body is half here, none would ever be read:
the first of them comes in whole."""

from __future__ import annotations

import asyncio

HELD_MAX_BYTES = 64_000_000
# A body up to this size waits for nobody: all that can be under way come to 32 MB.
SMALL_BYTES = 65_536


class HeldBodies:
    """Those of one process, counted on its loop: `HELD_MAX_BYTES` of large ones, one piece more of
    each that was on its way, and one whole body."""

    def __init__(self, most: int = HELD_MAX_BYTES) -> None:
        self.held = 0
        self._most = most
        # These are here, and will be read by themselves.
        self._whole: set[HeldBody] = set()
        self._first: HeldBody | None = None
        self._changed = asyncio.Event()

    def full_for(self, body: HeldBody) -> bool:
        """Makes it the first where nothing else would make room."""
        if self.held < self._most or self._first is body:
            return False
        if self._first is None and not self._whole:
            self._first = body
            return False
        return True

    async def room_for(self, body: HeldBody) -> None:
        while self.full_for(body):
            self._changed.clear()
            await self._changed.wait()

    def change(self, body: HeldBody, size: int, *, whole: bool = False) -> None:
        self.held += size - body.size
        body.size = size
        if whole:
            self._whole.add(body)
        else:
            self._whole.discard(body)
        if not size and self._first is body:
            self._first = None
        if self.held < self._most or (self._first is None and not self._whole):
            self._changed.set()


class HeldBody:
    """One page's."""

    __slots__ = ("_all", "size")

    def __init__(self, all_: HeldBodies) -> None:
        self._all = all_
        self.size = 0

    def grows(self, size: int) -> bool:
        """So much of it is here. Whether the rest must wait for `room`."""
        self._all.change(self, size)
        return self._all.full_for(self)

    async def room(self) -> None:
        await self._all.room_for(self)

    def is_whole(self, size: int) -> None:
        """It is here and unpacked."""
        if size > SMALL_BYTES:
            self._all.change(self, size, whole=True)

    def end(self) -> None:
        """It was read, or never will be."""
        if self.size:
            self._all.change(self, 0)
