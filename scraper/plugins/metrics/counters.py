"""Counters that only grow, made of rows that may shrink or vanish.

Prometheus takes a counter that falls for one that began again at zero, and would count all of it a
second time. A crawl's numbers fall where dead pages are replayed or dropped, and are gone with its
row; a proxy's are gone when Redis forgets. So a counter exports what was added since this process
began to read, which is what `rate()` and `increase()` need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Labels = tuple[str, ...]


class Growing:
    """Sums of the growth of many rows' numbers, by labels."""

    def __init__(self) -> None:
        self.sums: dict[Labels, float] = defaultdict(float)
        self._last: dict[Any, Mapping[Labels, float]] = {}
        self._updated = False

    def start(self, labels: Iterable[Labels]) -> None:
        """Labels that are exported from the beginning on, as zero: Prometheus counts nothing of a
        first value that it did not see grow."""
        for values in labels:
            self.sums[values] += 0.0

    def update(
        self, rows: Mapping[Any, Mapping[Labels, float]], *, keep: Iterable[object] | None = None
    ) -> None:
        """Takes each row's numbers of now. In the first update that is where they are counted from;
        in a later one a new row began at nothing. Rows that are gone are forgotten, but for those
        to `keep`."""
        for key, values in rows.items():
            before = self._last.get(key, {})
            for labels, value in values.items():
                grown = value - before.get(labels, 0.0)
                self.sums[labels] += max(0.0, grown) if self._updated else 0.0
        kept = set(rows if keep is None else keep)
        self._last = {key: values for key, values in {**self._last, **rows}.items() if key in kept}
        self._updated = True
