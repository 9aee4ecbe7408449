"""How many requests this process may have in flight at one host, and when the fleet is asked again.
Pure: the time is an argument."""

from __future__ import annotations

from scraper.politeness.fleet import Reservation

# An allotment is renewed well within its time to live.
RENEWED_S = 4.0
# It is renewed sooner where other processes want one too, or might: without a rate, this process
# asks for no slots and learns of them only here.
CONTENDED_S = 1.0
# A process that was granted too little, or must give some up, asks again after this.
RETRY_S = 0.25


class Allotment:
    """One process's part of a host's concurrency. `in_flight` may exceed `granted` for a while: the
    fleet counts those requests until they end, and none is begun until then."""

    __slots__ = ("_retry_s", "contended", "granted", "in_flight", "renew_at", "wanted")

    def __init__(self) -> None:
        self.in_flight = self.granted = self.wanted = 0
        # Other processes wait for an allotment.
        self.contended = False
        self.renew_at = 0.0
        # The wait until the fleet is asked again while other processes want more, too.
        self._retry_s = CONTENDED_S

    @property
    def room(self) -> int:
        """How many more requests may begin; below 0 while too many are in flight."""
        return self.granted - self.in_flight

    def release(self) -> None:
        """Ends a request. Other processes wait for what this one gives up, so the fleet is asked as
        soon as enough requests have ended."""
        self.in_flight -= 1
        if self.in_flight == self.granted:
            self.expire()

    def expire(self) -> None:
        """Makes the next request ask the fleet first."""
        self.renew_at = 0.0

    def grant(self, reservation: Reservation, wanted: int, now: float) -> None:
        """Takes over what the fleet granted of the `wanted` requests."""
        changed = reservation.allotment != self.granted
        self._retry_s = RETRY_S if changed else min(2 * self._retry_s, CONTENDED_S)
        self.granted = reservation.allotment
        self.wanted = wanted
        self.contended = reservation.contended
        self.renew_at = now + self._renewal_s(reservation)

    def _renewal_s(self, reservation: Reservation) -> float:
        if self.room < 0:
            return RETRY_S
        if reservation.interval_s:
            return CONTENDED_S if self.contended else RENEWED_S
        # This process may get more as soon as the others have reported what they give up.
        return self._retry_s if self.granted < self.wanted else CONTENDED_S
