"""The slots of one host that this process holds: times at which one request each may leave. Pure:
times are the loop's, and arguments."""

from __future__ import annotations

from collections import deque

from scraper.politeness.fleet import Reservation
from scraper.rules.budget import UnusedSlots

# A slot older than this is not used: its request would crowd the next one.
LATE_S = 0.05
# For fast hosts the limit is a quarter of the interval, and at least this.
LATE_LEAST_S = 0.01


class SlotQueue:
    """Slots in order, and the rest before which none is used.

    `interval_s` is the pace in force, as the fleet last reported it; 0 for none. `busy_until` is
    the end of the slots that this process has been granted.
    """

    __slots__ = (
        "_end", "_reserved_interval_s", "_slots", "busy_until", "interval_s", "rests_until",
    )  # fmt: skip

    def __init__(self) -> None:
        self.interval_s = self.rests_until = self.busy_until = 0.0
        self._slots: deque[float] = deque()
        # The end and the interval of the reservation that the slots belong to.
        self._end = 0
        self._reserved_interval_s = 0.0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def next_at(self) -> float:
        return self._slots[0]

    @property
    def unused(self) -> UnusedSlots:
        """All the slots, as the fleet takes them back."""
        return UnusedSlots(self._end, len(self._slots), self._reserved_interval_s)

    @property
    def late_s(self) -> float:
        """How late a slot may be used."""
        return min(LATE_S, max(LATE_LEAST_S, self.interval_s / 4))

    def add(self, reservation: Reservation) -> None:
        """Takes over the pace, the slots and, without a pace, the rest that the fleet reported."""
        self.interval_s = reservation.interval_s
        if not reservation.interval_s:
            self._slots.clear()
            self.rests_until = max(self.rests_until, reservation.at(0))
        elif reservation.slots:
            self._slots.extend(reservation.at(number) for number in range(reservation.slots))
            self.busy_until = self._slots[-1] + reservation.interval_s
            self._end = reservation.end
            self._reserved_interval_s = reservation.interval_s

    def clear(self) -> None:
        self._slots.clear()

    def rest(self, until: float) -> None:
        """Uses no slot before `until`, and none of those in hand."""
        self._slots.clear()
        self.rests_until = max(self.rests_until, until)

    def is_late(self, now: float) -> bool:
        """Returns whether the next slot is too old to be used."""
        return bool(self._slots) and self._slots[0] < now - self.late_s

    def drop_late(self, now: float) -> None:
        while self.is_late(now):
            self._slots.popleft()

    def take(self, at: float, now: float) -> bool:
        """Returns whether a request may leave `now` on the slot that was due `at`. False where that
        slot was given up in the meantime, falls into a rest, or is late."""
        if not self._slots or self._slots[0] != at:
            return False
        if self.rests_until > at:
            self._slots.popleft()
            return False
        if now > at + self.late_s:
            return False
        self._slots.popleft()
        return True
