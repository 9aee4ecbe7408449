"""Limits on the pages that are read on the event loop, and on the CPU time of reading. Pure.

Parsers are quadratic in what real pages do not have: thousands of attributes on one element, deep
nesting, siblings that selectors count, formatting elements that each block repeats.
`parses_quickly` decides from a page's bytes that the page cannot be of this kind; other pages are
read in a subprocess with a deadline (`extract.subprocess`). It samples an eighth of the page,
because a search for each tag would cost as much as a selector. Slow content is large, so it cannot
hide between the samples, whose places no page can predict.
"""

from __future__ import annotations

import random
import re
import time
from itertools import cycle
from typing import NamedTuple

# A page with at most this many bytes and tags parses within a few tenths of a second.
BYTES_MAX = 1_000_000
TAGS_MAX = 10_000
# XPath and CSS that may be cubic or worse run on pages with at most this many tags.
TAGS_FEW = 500
# Merging the descendants of several elements compares each pair: 0.06 ns for each element and pair
# of tags.
COMPARED_MAX = 3e9
_STEP_BYTES = 4096
_SAMPLE_BYTES = 512
_STEP_SAMPLES = _STEP_BYTES // _SAMPLE_BYTES
# An element with n attributes takes n * n of these, in lexbor and in lxml.
_ATTRIBUTE_PAIR_S = 1.3e-9
_ATTRIBUTES_MAX_S = 0.3
# The mean length of an attribute is at least this, if thousands have different names.
_ATTRIBUTE_BYTES = 4.0
_SEPARATORS = (b" ", b"\n", b"\t", b"/", b"=")
# Each tag may repeat all open formatting elements with attributes: 0.5 us for each pair.
_REPEATED_MAX = 1.5e6
_FORMATTING = re.compile(
    rb"<(?=[bcefnistu])(?:[bisu]|big|code|em|font|nobr|small|strike|strong|tt)[ \t\n\r\f/]", re.I
)
# Where the sample lies within each step: random, and not the same within all steps.
_OFFSETS = random.SystemRandom().choices(range(_STEP_BYTES - _SAMPLE_BYTES + 1), k=251)


class TooSlow(Exception):
    """Reading the page took longer than the limit. The message says what took how long."""


class ReadElsewhere(Exception):
    """The page may take long to read, so it must be read in a subprocess."""


class ReadLimits(NamedTuple):
    """`cpu_s`: the CPU time for reading a page. `isolated`: no other page waits for this one.
    `deadline_s`: by the clock, in a subprocess."""

    cpu_s: float
    isolated: bool
    deadline_s: float = 4.5


ON_LOOP = ReadLimits(0.5, isolated=False)
ISOLATED = ReadLimits(2.0, isolated=True)
# The largest sitemap that sitemaps.org allows takes 1.7 s of an idle machine.
ISOLATED_SITEMAP = ReadLimits(10.0, isolated=True, deadline_s=20.0)


class CpuBudget:
    """The CPU time left for a page. Time that other threads used does not count."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._began, self._cpu_began = time.perf_counter(), time.thread_time()

    def check(self, doing: str) -> None:
        """Raises `TooSlow` as soon as the time is used up."""
        # Reading the wall clock costs a tenth of reading the CPU clock.
        if time.perf_counter() - self._began < self._limits.cpu_s:
            return
        cpu_s = time.thread_time() - self._cpu_began
        if cpu_s < self._limits.cpu_s:
            return
        raise TooSlow(f"reading the page took {cpu_s:.1f} s ({doing})")


def estimate_tags(source: bytes) -> int:
    """Estimates how many tags the page has, counting opening and closing tags."""
    if len(source) < _STEP_BYTES:
        return source.count(b"<")
    return _STEP_SAMPLES * sum(
        source.count(b"<", at, at + _SAMPLE_BYTES) for at in _place_samples(0, len(source))
    )


def parses_quickly(source: bytes) -> bool:
    """Returns whether the page certainly parses in a few tenths of a second. Costs 0.1 us a
    kilobyte."""
    end = len(source)
    if end < _STEP_BYTES:
        return True
    if end > BYTES_MAX:
        return False
    count, find, find_formatting = source.count, source.find, _FORMATTING.findall
    sampled, formatting, at, offsets = 0, 0, 0, cycle(_OFFSETS)
    gaps: list[tuple[int, int]] = []
    while at < end:
        begin = at + next(offsets)
        hits = count(b"<", begin, begin + _SAMPLE_BYTES)
        sampled += hits
        if hits:
            formatting += len(find_formatting(source, begin, begin + _SAMPLE_BYTES))
        if not hits and at + _STEP_BYTES < end and find(b"<", at, at + _STEP_BYTES) < 0:
            before, behind = source.rfind(b"<", 0, at), find(b"<", at + _STEP_BYTES)
            behind = end if behind < 0 else behind
            gaps.append((before + 1, behind))
            at = behind
        else:
            at += _STEP_BYTES
    tags = sampled * _STEP_SAMPLES
    if tags > TAGS_MAX or tags * formatting * _STEP_SAMPLES > _REPEATED_MAX:
        return False
    longest = sum(((behind - before) / _ATTRIBUTE_BYTES) ** 2 for before, behind in gaps)
    if longest * _ATTRIBUTE_PAIR_S <= _ATTRIBUTES_MAX_S:
        return True
    # The bytes between two tags may be attributes, but are usually a script.
    most = sum(_estimate_attributes(source, before, behind) ** 2 for before, behind in gaps)
    return most * _ATTRIBUTE_PAIR_S <= _ATTRIBUTES_MAX_S


def _estimate_attributes(source: bytes, before: int, behind: int) -> int:
    """Estimates the maximum number of attributes in that part of the page."""
    return _STEP_SAMPLES * sum(
        source.count(separator, at, min(at + _SAMPLE_BYTES, behind))
        for at in _place_samples(before, behind)
        for separator in _SEPARATORS
    )


def _place_samples(begin: int, end: int) -> list[int]:
    """Returns where the sample of each step begins."""
    steps = range(begin, end, _STEP_BYTES)
    return [step + offset for step, offset in zip(steps, cycle(_OFFSETS), strict=False)]
