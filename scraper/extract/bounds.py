"""What a page may be, and how long its reading may take, where other pages wait for it. Pure.

Parsers are quadratic in what no real page has: thousands of attributes of one element, elements
within each other, siblings that selectors count. `parses_quickly` sees from a page's bytes that it
cannot be such a page; any other is read in a process of its own, which has a deadline
(`extract.subprocess`). It looks at samples, an eighth of the page, where a search for each tag would
cost as much as a selector: what is slow is large, and cannot hide between them. """

from __future__ import annotations

import random
import time
from typing import NamedTuple

# A page of so many bytes and tags is parsed within some tenths of a second, whatever they are.
BYTES_MAX = 1_000_000
TAGS_MAX = 10_000
# XPath and CSS that may be cubic and worse are answered for so many.
TAGS_FEW = 500
# What several elements have below them is merged by comparing each with each: 0.06 ns for each of
# these elements and pair of tags.
COMPARED_MAX = 3e9
_STEP_BYTES = 4096
_SAMPLE_BYTES = 512
# An element of n attributes takes n * n of these, lexbor's or lxml's.
_ATTRIBUTE_PAIR_S = 1.3e-9
_ATTRIBUTES_MAX_S = 0.3
# Different names are no shorter, in the mean of thousands.
_ATTRIBUTE_BYTES = 4.0
_SEPARATORS = (b" ", b"\n", b"\t", b"/", b"=")
# Samples begin where no page can know.
_phase = random.SystemRandom().randrange(_SAMPLE_BYTES)


class TooSlow(Exception):
    """The page takes longer to read than a page may. The message says what took how long."""


class ReadElsewhere(Exception):
    """The page may take long: it is to be read in a process of its own."""


class ReadLimits(NamedTuple):
    """`cpu_s`: of reading a page as a whole. `isolated`: nobody waits for it."""

    cpu_s: float
    isolated: bool


ON_LOOP = ReadLimits(0.5, isolated=False)
ISOLATED = ReadLimits(2.0, isolated=True)


class CpuBudget:
    """The CPU time that is left for a page. Time that others had does not count."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._began, self._cpu_began = time.perf_counter(), time.thread_time()

    def check(self, doing: str) -> None:
        """Raises `TooSlow` once the time is over."""
        # The clock on the wall costs a tenth of the other one.
        if time.perf_counter() - self._began < self._limits.cpu_s:
            return
        cpu_s = time.thread_time() - self._cpu_began
        if cpu_s < self._limits.cpu_s:
            return
        raise TooSlow(f"reading the page took {cpu_s:.1f} s ({doing})")


def estimate_tags(source: bytes) -> int:
    """About how many tags the page has, of their beginnings and ends."""
    return sum(
        source.count(b"<", at, at + _SAMPLE_BYTES) for at in range(_phase, len(source), _STEP_BYTES)
    ) * (_STEP_BYTES // _SAMPLE_BYTES)


def parses_quickly(source: bytes) -> bool:
    """Whether a page is surely parsed in some tenths of a second. Costs 0.1 us a kilobyte."""
    end = len(source)
    if end < _STEP_BYTES:
        return True
    if end > BYTES_MAX:
        return False
    count, find = source.count, source.find
    sampled, at = 0, _phase
    gaps: list[tuple[int, int]] = []
    while at < end:
        hits = count(b"<", at, at + _SAMPLE_BYTES)
        sampled += hits
        if not hits and at + _STEP_BYTES < end and find(b"<", at, at + _STEP_BYTES) < 0:
            before, behind = source.rfind(b"<", 0, at), find(b"<", at + _STEP_BYTES)
            behind = end if behind < 0 else behind
            gaps.append((before + 1, behind))
            at = behind
        else:
            at += _STEP_BYTES
    if sampled * (_STEP_BYTES // _SAMPLE_BYTES) > TAGS_MAX:
        return False
    longest = sum(((behind - before) / _ATTRIBUTE_BYTES) ** 2 for before, behind in gaps)
    if longest * _ATTRIBUTE_PAIR_S <= _ATTRIBUTES_MAX_S:
        return True
    # What is between two signs of a tag may be attributes, but is most often a script.
    most = sum(_estimate_attributes(source, before, behind) ** 2 for before, behind in gaps)
    return most * _ATTRIBUTE_PAIR_S <= _ATTRIBUTES_MAX_S


def _estimate_attributes(source: bytes, before: int, behind: int) -> int:
    """About how many attributes there may be in that part of the page, at the most."""
    step, sample = 2 * _STEP_BYTES, 2 * _SAMPLE_BYTES
    return (step // sample) * sum(
        source.count(separator, at, min(at + sample, behind))
        for at in range(before + _phase, behind, step)
        for separator in _SEPARATORS
    )
