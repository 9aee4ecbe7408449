"""Counters that only grow, made from rows whose numbers may fall or disappear.

If a counter falls, Prometheus assumes that it restarted at zero, and counts its whole value again.
A crawl's numbers fall when dead pages are replayed or dropped, and disappear with its row; a
proxy's disappear when Redis drops them. So a counter exports the growth since this process began to
read, which is what `rate()` and `increase()` need.
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
        """Exports labels as zero from the beginning, since Prometheus does not count the first
        value that it sees."""
        for values in labels:
            self.sums[values] += 0.0

    def update(
        self, rows: Mapping[Any, Mapping[Labels, float]], *, keep: Iterable[object] | None = None
    ) -> None:
        """Adds the growth of each row's numbers. Those of the first update are the base; a row that
        is new in a later one began at zero. Rows that are missing are forgotten, except those to
        `keep`."""
        for key, values in rows.items():
            before = self._last.get(key, {})
            for labels, value in values.items():
                grown = value - before.get(labels, 0.0)
                self.sums[labels] += max(0.0, grown) if self._updated else 0.0
        kept = set(rows if keep is None else keep)
        self._last = {key: values for key, values in {**self._last, **rows}.items() if key in kept}
        self._updated = True
