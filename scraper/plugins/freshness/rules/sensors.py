"""Which signals of a change are believed. Pure.

A sensor says for less than a page that a page may have changed: the price on a listing's card, a
sitemap's date. The next visit of such a page shows whether it was right. A sensor whose signals are
mostly wrong loses its say: its signals no longer move visits forward, but they are still compared,
so that it can win it back.
"""

from __future__ import annotations

from typing import NamedTuple

# Each visit that says something of a sensor multiplies the weight of earlier ones by this.
FADES = 1 - 1 / 400
# A sensor's signals are wrong at most at this share of what chance would be. A sensor that signals
# every page is wrong as often as chance.
WRONG_MAX = 0.7
# A new sensor may be wrong this often.
WRONG_FIRST = 3.0
# A recall is only believed as far as this many missed changes would leave it.
MISSED_MORE = 1.0


class SensorRecord(NamedTuple):
    """What visits have shown of a sensor: right signals, wrong ones, changes without a signal, and
    how many signals would be wrong if they came by chance."""

    right: float = 0.0
    wrong: float = 0.0
    missed: float = 0.0
    chance_wrong: float = 0.0

    def after_visit(self, *, signalled: bool, changed: bool, chance: float) -> SensorRecord:
        """Returns the record with one more visit of a page that the sensor covers. `chance` is the
        probability, by the page's rate, that it has changed since the last one."""
        if not signalled and not changed:
            return self
        return SensorRecord(
            self.right * FADES + (signalled and changed),
            self.wrong * FADES + (signalled and not changed),
            self.missed * FADES + (changed and not signalled),
            self.chance_wrong * FADES + (1 - chance if signalled else 0.0),
        )

    @property
    def precision(self) -> float | None:
        """The share of signals that were right; None before the first one."""
        signals = self.right + self.wrong
        return self.right / signals if signals else None

    @property
    def recall(self) -> float:
        """The share of changes that it signals, not more than is certain."""
        return self.right / (self.right + self.missed + MISSED_MORE)

    @property
    def has_say(self) -> bool:
        """True if its signals move visits forward."""
        return self.wrong <= WRONG_MAX * self.chance_wrong + WRONG_FIRST
