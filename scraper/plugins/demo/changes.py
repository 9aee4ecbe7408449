"""Prices of the sample shop that change while it serves, each at a time that is known.

Changes come at random. A product's own rate is drawn once: as in many shops, most products change
less often than the mean, and a few much more often.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from random import Random

from scraper.plugins.demo.catalogue import ShopItem, change_price

DAY_S = 86_400.0
# The spread of the products' rates: a standard deviation of their logarithms.
SIGMA = 1.5


class PriceChanges:
    """What changes in `items`, and what has changed: times, ids and new prices."""

    def __init__(self, items: dict[int, ShopItem], seed: int) -> None:
        self.changes: list[tuple[float, int, str]] = []
        self._items = items
        self._rng = Random(f"{seed}:changes")
        self._shares: dict[int, float] = {}
        self._rate = 0.0
        self._next: list[tuple[float, int]] = []

    def make_until(self, now: float, rate: float) -> bool:
        """Makes the changes up to a time, at `rate` a product and day from the first call with
        that rate. Returns whether there was one."""
        if rate != self._rate:
            self._rate = rate
            self._shares = self._shares or {i: self._draw_share() for i in sorted(self._items)}
            self._next = [(self._draw_next(now, i), i) for i in self._items] if rate else []
            heapq.heapify(self._next)
        before = len(self.changes)
        while self._next and self._next[0][0] <= now:
            at, number = self._next[0]
            item = self._items[number]
            price = change_price(item.price, self._rng.uniform(0.8, 1.2))
            self._items[number] = replace(item, price=price)
            self.changes.append((at, number, str(price)))
            heapq.heapreplace(self._next, (self._draw_next(at, number), number))
        return len(self.changes) > before

    def _draw_share(self) -> float:
        return math.exp(self._rng.gauss(-(SIGMA**2) / 2, SIGMA))

    def _draw_next(self, at: float, number: int) -> float:
        return at + DAY_S * self._rng.expovariate(self._rate * self._shares[number])
