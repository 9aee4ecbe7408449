"""Limits on the pages that are read on the event loop, and on the CPU time of reading. Pure.

Parsers are quadratic in what real pages do not have: thousands of attributes on one element, deep
nesting, siblings that selectors count, formatting elements that each block repeats, options of a
list. `ParseCost` says from a page's bytes that the page cannot be of this kind. It samples
an eighth of the page, because a search for each tag would cost as much as a selector. Slow content
is large, so it cannot hide between the samples, whose places no page can predict.

A larger page is parsed in a thread, where lexbor holds no lock, if it ends there in bounded time.
How long that took shows what the page is: a page that parsed in time is read on the loop. Every
other page is read in a subprocess with a deadline (`extract.subprocess`).
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scraper.extract.document import Document

# A page with at most this many bytes and tags parses within a few tenths of a second.
BYTES_MAX = 1_000_000
TAGS_MAX = 10_000
# A page with at most this many bytes and tags parses in a thread: 99 % of shops' pages in 50 ms,
# the deepest in ten seconds.
THREAD_BYTES_MAX = 4_200_000
THREAD_TAGS_MAX = 60_000
# A page that took longer to parse is not like those of shops.
PARSE_MAX_S = 0.5
# XPath and CSS that may be cubic or worse run on pages with at most this many tags.
TAGS_FEW = 500
_STEP_BYTES = 4096
_SAMPLE_BYTES = 512
_STEP_SAMPLES = _STEP_BYTES // _SAMPLE_BYTES
# An element with n attributes takes n * n of these, in lexbor and in lxml.
_ATTRIBUTE_PAIR_S = 1.3e-9
_ATTRIBUTES_MAX_S = 0.3
# Scripts look like attributes: 300 KB of JSON would be 10 s.
_THREAD_ATTRIBUTES_MAX_S = 20.0
# The mean length of an attribute is at least this, if thousands have different names.
_ATTRIBUTE_BYTES = 4.0
_SEPARATORS = b" \n\t/="
# Python looks for a number among bytes in a tenth of the time that it takes for bytes.
_LESS_THAN = ord("<")
# Each tag may repeat all open formatting elements with attributes: 0.3 us and 320 bytes a pair.
_REPEATED_MAX = 0.9e6
_FORMATTING_NAMES = rb"[bisu]|big|code|em|font|nobr|small|strike|strong|tt"
# At each option lexbor walks over the options of its list, and at each <html> over its attributes.
_REPEATED_TAGS_MAX = 4_000
# Finds both kinds at once, and formatting elements as nothing.
_COSTLY_TAGS = re.compile(
    rb"<(?=[bcefhinostu])(?:(option|html|body)|(?:%b)[ \t\n\r\f/])" % _FORMATTING_NAMES, re.I
).findall
# `<b class="x">text</b>`, closed before any other tag: no block repeats it.
_CLOSED_FORMATTING = re.compile(
    rb"""<(?=[bcefinstu])(%b)
    (?:\s++[^\s"'<>/=]++(?:=(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`]++))?+)*+\s*+>
    [^<]*+</\1>"""
    % _FORMATTING_NAMES,
    re.I | re.X,
)
# Where the sample lies within each step: random, and not the same within all steps.
_OFFSETS = random.SystemRandom().choices(range(_STEP_BYTES - _SAMPLE_BYTES + 1), k=251)


class TooSlow(Exception):
    """Reading the page took longer than the limit. The message says what took how long."""


class ReadElsewhere(Exception):
    """The page may take long to read, so it must be read in a subprocess."""


class ParseElsewhere(ReadElsewhere):
    """The document may be read here after `parse` was called in a thread, which returns the CPU
    time that it took, in seconds."""

    def __init__(self, document: Document, parse: Callable[[], float]) -> None:
        super().__init__("parse the document in a thread")
        self.document = document
        self.parse = parse


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


class ParseCost:
    """Estimates from a page's bytes what parsing it may cost. They are sampled at most once."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    @cached_property
    def tags(self) -> int:
        """Estimates how many tags the page has, counting opening and closing tags."""
        source = self._source
        return source.count(b"<") if len(source) < _STEP_BYTES else self._sample.tags

    def parses_quickly(self) -> bool:
        """Returns whether the page certainly parses in a few tenths of a second. Costs 0.4 us a
        kilobyte."""
        end = len(self._source)
        if end < _STEP_BYTES:
            return True
        if end > BYTES_MAX:
            return False
        sample = self._sample
        return (
            sample.tags <= TAGS_MAX
            and sample.tags * sample.formatting <= _REPEATED_MAX
            and sample.repeated <= _REPEATED_TAGS_MAX
            and _estimate_attributes_s(self._source, sample.gaps) <= _ATTRIBUTES_MAX_S
        )

    def parses_in_thread(self) -> bool:
        """Returns whether the page parses in bounded time and memory. Costs 2 us a kilobyte."""
        source = self._source
        if len(source) > THREAD_BYTES_MAX or source.count(b"<") > THREAD_TAGS_MAX:
            return False
        sample = self._sample
        if sample.repeated > _REPEATED_TAGS_MAX:
            return False
        if sample.tags * sample.formatting > _REPEATED_MAX:
            # Closed elements may be within others.
            unclosed = _CLOSED_FORMATTING.sub(b"", _CLOSED_FORMATTING.sub(b"", source))
            if sample.tags * _COSTLY_TAGS(unclosed).count(b"") > _REPEATED_MAX:
                return False
        return _estimate_attributes_s(source, sample.gaps) <= _THREAD_ATTRIBUTES_MAX_S

    @cached_property
    def _sample(self) -> _PageSample:
        return _take_sample(self._source)


class _PageSample(NamedTuple):
    """Estimates of how many tags a page has, how many formatting elements with attributes, and how
    many tags <option>, <html> and <body>; the gaps of more than a step between two tags."""

    tags: int
    formatting: int
    repeated: int
    gaps: list[tuple[int, int]]


def _take_sample(source: bytes) -> _PageSample:
    end, find = len(source), source.find
    at, offsets = 0, cycle(_OFFSETS)
    parts: list[bytes] = []
    gaps: list[tuple[int, int]] = []
    while at < end:
        begin = at + next(offsets)
        part = source[begin : begin + _SAMPLE_BYTES]
        if _LESS_THAN in part:
            parts.append(part)
        elif at + _STEP_BYTES < end and find(b"<", at, at + _STEP_BYTES) < 0:
            before, behind = source.rfind(b"<", 0, at), find(b"<", at + _STEP_BYTES)
            behind = end if behind < 0 else behind
            gaps.append((before + 1, behind))
            at = behind
            continue
        at += _STEP_BYTES
    text = b"\n".join(parts)
    costly = _COSTLY_TAGS(text)
    formatting = costly.count(b"") * _STEP_SAMPLES
    repeated = len(costly) * _STEP_SAMPLES - formatting
    return _PageSample(text.count(b"<") * _STEP_SAMPLES, formatting, repeated, gaps)


def _estimate_attributes_s(source: bytes, gaps: list[tuple[int, int]]) -> float:
    """Estimates how many seconds the attributes take at most that may lie between two tags."""
    longest = sum(((behind - before) / _ATTRIBUTE_BYTES) ** 2 for before, behind in gaps)
    if longest * _ATTRIBUTE_PAIR_S <= _ATTRIBUTES_MAX_S:
        return longest * _ATTRIBUTE_PAIR_S
    # The bytes between two tags may be attributes, but are usually a script.
    most = sum(_estimate_attributes(source, before, behind) ** 2 for before, behind in gaps)
    return most * _ATTRIBUTE_PAIR_S


def _estimate_attributes(source: bytes, before: int, behind: int) -> int:
    """Estimates the maximum number of attributes in that part of the page."""
    steps = zip(range(before, behind, _STEP_BYTES), cycle(_OFFSETS), strict=False)
    places = [step + offset for step, offset in steps]
    sample = b"".join([source[at : min(at + _SAMPLE_BYTES, behind)] for at in places])
    return _STEP_SAMPLES * (len(sample) - len(sample.translate(None, _SEPARATORS)))
