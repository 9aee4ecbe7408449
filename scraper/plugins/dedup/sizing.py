"""The arithmetic of Bloom filters: their size, and how often they are wrong. Pure.

A filter of m bits and k hashes that holds n URLs takes a new URL for a known one with the
probability (1 - e^(-kn/m))^k. Several filters that are asked in turn are wrong if any of them is.
A probability p needs at least 1.44 * log2(1/p) bits per URL, with k = log2(1/p).

    bits per URL k    wrong, full     used for
    15.93        11   0.047 %         a generation's first part; two generations live at a time,
                                      so at most 0.095 %
    26           17   0.0004 %        the further parts of a generation that was too small
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """The bits per URL of capacity, and the hashes, of a part."""

    bits: float
    hashes: int


FIRST = Shape(15.93, 11)
FURTHER = Shape(26, 17)


@dataclass(frozen=True, slots=True)
class FilterPart:
    """A bitmap in `shards` keys of `shard_bytes` each, with `added` URLs in it."""

    shards: int
    shard_bytes: int
    hashes: int
    capacity: int
    added: int

    @property
    def bytes(self) -> int:
        return self.shards * self.shard_bytes

    @property
    def false_positives(self) -> float:
        """The probability that an unknown URL seems to be in the part."""
        return float((1 - math.exp(-self.hashes * self.added / (8 * self.bytes))) ** self.hashes)


def false_positives(parts: Iterable[FilterPart]) -> float:
    """Returns the probability that an unknown URL seems to be in one of the parts."""
    return 1 - math.prod(1 - part.false_positives for part in parts)
