"""The arithmetic of Bloom filters: what a filter costs and how often it is wrong. Pure.

A filter of m bits and k hashes that holds n URLs takes a new URL for a known one with the
probability (1 - e^(-kn/m))^k. Several filters that are asked one after the other are wrong as often
as any of them is. For a fixed probability p the least that does is 1.44 * log2(1/p) bits a URL,
with k = log2(1/p).

    bits a URL   k    wrong, full     used for
    15.93        11   0.047 %         what a generation was made for; two of them live at a time,
                                      which makes 0.095 % at the worst
    26           17   0.0004 %        what comes on top, where a generation was made too small
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """How a part is made: bits for each URL that it is made for, and hashes."""

    bits: float
    hashes: int


FIRST = Shape(15.93, 11)
FURTHER = Shape(26, 17)


@dataclass(frozen=True, slots=True)
class Part:
    """One filter: `shards` keys of `shard_bytes` each, and how many URLs are in it."""

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
        """The probability that a URL which is not in it seems to be."""
        return float((1 - math.exp(-self.hashes * self.added / (8 * self.bytes))) ** self.hashes)


def false_positives(parts: Iterable[Part]) -> float:
    """The probability that a URL which is in none of them seems to be in one."""
    return 1 - math.prod(1 - part.false_positives for part in parts)
