"""How a host's pace changes, in Python: what the scripts in Redis are compared with."""

from __future__ import annotations

from scraper.rules.budget import CUT, FLOOR, RECOVERS_S, STEP


def cut_pace(factor: float) -> float:
    """Returns the pace after one signal."""
    return max(FLOOR, factor * CUT)


def raise_pace(factor: float, good: int, since_s: float) -> float:
    """Returns the pace after `good` answers, `since_s` after the last change."""
    return min(1.0, factor + min(good * STEP, since_s / RECOVERS_S))
