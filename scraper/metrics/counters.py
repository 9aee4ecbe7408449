"""Counters that only grow, made of rows that may shrink or vanish.

Prometheus takes a counter that falls for one that began anew at zero, and would count all of it a
second time. A crawl's numbers fall where dead pages are replayed or dropped, and are gone with its
row; a proxy's are gone when Redis forgets. So what is exported is what was added since this process
began to look, which is what `rate()` and `increase()` read.
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
        self._looked = False

    def start(self, labels: Iterable[Labels]) -> None:
        """Labels that are exported from the beginning on, as zero: a first value that is not seen
        to grow counts nothing."""
        for each in labels:
            self.sums[each] += 0.0

    def look(
        self, rows: Mapping[Any, Mapping[Labels, float]], *, keep: Iterable[object] | None = None
    ) -> None:
        """Takes what each row says now. In the first look that is where they are counted from, in a
        later one a new row began at nothing. Rows that are gone are forgotten, but for those to
        `keep`."""
        for key, values in rows.items():
            before = self._last.get(key, {})
            for labels, value in values.items():
                grown = value - before.get(labels, 0.0)
                self.sums[labels] += max(0.0, grown) if self._looked else 0.0
        kept = set(rows if keep is None else keep)
        self._last = {key: values for key, values in {**self._last, **rows}.items() if key in kept}
        self._looked = True
