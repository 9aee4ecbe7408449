"""Decides when a product page is requested again, and with which validators. Pure.

Each page has its own interval, by how often it was found changed.

The rule, for a page that is requested after its whole interval: if it has changed, the interval is
halved; if not, it grows by half. Requested earlier or later (crawls have their own schedule, and an
operator may use `--refetch`), the interval moves by as much as that visit shows: ten visits within
a minute that find nothing new do not make a quiet page.

That is one step of maximum likelihood for changes that come at random (a Poisson process). With
`CHANGES` changes expected in an interval, the likelihood of what was seen after `u` intervals moves
the logarithm of the interval by `CHANGES·u` where nothing changed, and by `-CHANGES·u /
(e^(CHANGES·u) - 1)` where something did; both times `GAIN`. At the true rate these are 0 on
average, whatever the times between visits, so the interval settles where `QUIET` of the visits find
nothing new. Halving and growing by half at `u` = 1 give both constants.

An example, from six hours to two weeks: a page is visited each day and never changes. The first
visit is four intervals late, and counts for `LATE_MAX`: 6 h -> 20 h; then 33 h, 45 h (a visit each
day shows less than a whole interval), …

Rejected: counting visits and changes (Cho and Garcia-Molina), which needs regular visits, two
columns, and a memory of what the page was years ago; a step that ignores the time that has passed,
which `--refetch` would drive to the bounds.

Validators (RFC 9110, 8.8): a server receives its validator as a request header, which decides
whether its next response counts as what is stored. So a validator is stored only if it is short and
exactly what RFC 9110 allows. That excludes dangerous ones: line breaks; `*`, which as If-None-Match
would match anything; lists; and unquoted tags, which servers compare differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from scraper.domain import NO_VALIDATORS, LastReading, LeasedPage, Validators

# The interval is multiplied by this after a whole one without a change.
GROWS = 1.5
# The interval is multiplied by this after a whole one with a change.
SHRINKS = 0.5
# The changes expected in one interval: 0.46.
CHANGES = math.log(1 + math.log(GROWS) / -math.log(SHRINKS))
GAIN = math.log(GROWS) / CHANGES
# The share of visits after a whole interval that find nothing new: 63 %.
QUIET = math.exp(-CHANGES)
# A visit later than this many intervals shows no more, so that no step is too long.
LATE_MAX = 3.0


# A longer tag is not stored.
ETAG_MAX = 512

# RFC 9110, 8.8.3, without the bytes beyond ASCII that it allows for old servers.
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"').fullmatch
# RFC 9110, 5.6.7, without the two obsolete formats, which no trustworthy server sends.
_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) "
    r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4}) (\d\d:\d\d:\d\d) GMT",
    re.ASCII,
).fullmatch
_DATE_CHARS = len("Sun, 06 Nov 1994 08:49:37 GMT")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


class Bounds(NamedTuple):
    """The shortest and the longest interval, in seconds. If they are equal, all pages have the
    same."""

    min_s: float
    max_s: float

    @property
    def adaptive(self) -> bool:
        return self.min_s < self.max_s

    def clamped(self, seconds: float) -> float:
        return min(max(seconds, self.min_s), self.max_s)


def next_interval_s(
    bounds: Bounds, interval_s: float | None, since_s: float | None, *, changed: bool
) -> float:
    """Returns the interval of a page that was visited `since_s` after its last good response. A new
    page, or one without an interval, begins with the shortest.

    >>> week = Bounds(3600, 604_800)
    >>> [round(next_interval_s(week, 86_400, 86_400, changed=changed)) for changed in (True, False)]
    [43200, 129600]
    """
    if interval_s is None or since_s is None:
        return bounds.min_s
    now_s = bounds.clamped(interval_s)
    expected = CHANGES * min(max(since_s, 0.0) / now_s, LATE_MAX)
    if changed:
        return bounds.clamped(
            now_s * math.exp(-GAIN * expected / math.expm1(expected) if expected > 1e-9 else -GAIN)
        )
    return bounds.clamped(now_s * math.exp(GAIN * expected))


def read_validators(headers: Mapping[str, str], body_hash: int | None = None) -> Validators:
    """Returns a response's validators, unchanged. `headers` has lower-case names.

    A page may change twice within a second, so Last-Modified counts only if it is earlier than the
    response's Date (RFC 9110, 8.8.2.2); a later one is wrong anyway.
    """
    etag, modified = headers.get("etag"), headers.get("last-modified")
    if etag is not None and (len(etag) > ETAG_MAX or not _ETAG(etag)):
        etag = None
    if modified is not None:
        at = _parse_date(modified)
        date = headers.get("date")
        sent = _parse_date(date) if date else None
        if at is None or (sent is not None and at >= sent):
            modified = None
    if etag or modified or body_hash is not None:
        return Validators(etag, modified, body_hash)
    return NO_VALIDATORS


def trusted_reading(
    page: LeasedPage, extractor_hash: int | None, believed_s: float
) -> LastReading | None:
    """Returns the page's last reading, whose validators its request carries; None where a 304, or
    the same content, would not prove enough.

    `extractor_hash` identifies the extractor of now (None: unknown): another one finds other values
    on the same page. After `believed_s` a page is read whole again. A 304 proves nothing for a page
    that seems to be blocked.
    """
    stored = page.last_reading
    if (
        stored is None
        or extractor_hash is None
        or stored.extractor_hash != extractor_hash
        or page.blocked
    ):
        return None
    return stored if stored.read_s < believed_s else None


def _parse_date(date: str) -> tuple[str, int, str, str] | None:
    """Returns year, month, day and time of day, which compare as the dates do."""
    return _parse_cached(date) if len(date) == _DATE_CHARS else None


# The cache is small: many of a shop's pages share a date of change.
@lru_cache(maxsize=512)
def _parse_cached(date: str) -> tuple[str, int, str, str] | None:
    match = _DATE(date)
    return (match[3], _MONTHS.index(match[2]), match[1], match[4]) if match else None
