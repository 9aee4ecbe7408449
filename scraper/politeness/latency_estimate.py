"""How long one host's requests take, as one process measures it. Pure: the time is an argument."""

from __future__ import annotations

# The wait for an answer is this many times what the host's slowest answers take.
TIMEOUT_SLOWEST = 5
# It is at least this.
TIMEOUT_LEAST_S = 1.5
# Fewer answers say too little.
ANSWERS_LEAST = 20
# From this try on (0 is the first), the wait is at least this, or this share of the host's crawl so
# far: a page that is slow only once costs little of a long crawl.
PATIENT_TRY = 2
PATIENT_LEAST_S = 4.0
PATIENT_SHARE = 0.1
# After 700 quick answers a slow one counts half.
SLOWEST_FADES = 0.999
# The mean moves by this share of each request.
HELD_WEIGHT = 0.2
# Pages go back where no request has ended for this long: a batch does not wait for a host that
# hangs.
STUCK_S = 2.0
# Where the host's requests are known to take longer, pages wait up to this.
STUCK_MAX_S = 5.0


class LatencyEstimate:
    """The slowest answers of late, failures excluded, and the mean time that a permit is held."""

    __slots__ = ("_answers", "_first_at", "_slowest_s", "held_s")

    def __init__(self) -> None:
        # 0 until a permit has been released.
        self.held_s = 0.0
        self._slowest_s = self._first_at = 0.0
        self._answers = 0

    def record_answer(self, seconds: float, now: float) -> None:
        """Records a good answer's time."""
        self._slowest_s = max(seconds, SLOWEST_FADES * self._slowest_s)
        self._answers += 1
        self._first_at = self._first_at or now

    def record_held(self, seconds: float) -> None:
        """Records how long a permit was held once its request had left."""
        self.held_s += HELD_WEIGHT * (seconds - self.held_s)

    def answer_timeout_s(self, tries: int, now: float) -> float | None:
        """Returns how long to wait for an answer after `tries` earlier tries, judged by the host's
        other answers; None after too few answers."""
        if self._answers < ANSWERS_LEAST:
            return None
        least_s = TIMEOUT_LEAST_S
        if tries >= PATIENT_TRY:
            least_s = max(PATIENT_LEAST_S, PATIENT_SHARE * (now - self._first_at))
        return max(least_s, TIMEOUT_SLOWEST * self._slowest_s)

    def stuck_after_s(self) -> float:
        """Returns how long no request may end before the host counts as hanging."""
        return min(max(STUCK_S, 3 * self.held_s), STUCK_MAX_S)
