"""When a product page is asked for again, and with which validators. Pure.

A page has an interval of its own, by how often it was found changed.

The rule, for a page that is looked at after its whole interval: found changed, the interval is
halved; unchanged, it grows by half. Looked at earlier or later (a crawl comes when it comes, and
somebody may type `--refetch`), it moves by as much as that look has to say: ten looks within a
minute that find nothing new are no sign of a quiet page.

That is one step of maximum likelihood for changes that come at random (a Poisson process). With a
rate of changes of `C` an interval, the likelihood of what was seen after `u` intervals moves the
logarithm of the interval by `C·u` where nothing changed, and by `-C·u / (e^(C·u) - 1)` where
something did; both times `GAIN`. At the true rate these are 0 on average, whatever the times
between the looks, so the interval settles where `QUIET` of the looks find nothing new. Halving and
growing by half at `u` = 1 give both constants.

An example, from six hours to two weeks: a page is looked at each day and never changes. The first
look is four intervals late, and counts for `LATE_MAX`: 6 h -> 20 h; then 33 h, 45 h (a look each
day says less than a whole interval), …

Rejected: counting looks and changes (Cho and Garcia-Molina), which wants regular looks, two
columns, and a memory of what the page was years ago; a step without regard to the time that has
passed, which `--refetch` would drive to the bounds.

Validators (RFC 9110, 8.8): what a server sends as one comes back to it as a request header, and
decides whether its next answer is believed to be what is stored. So it is kept only where it is, to
the letter, what RFC 9110 calls one, and short. That leaves out what is dangerous: line breaks; `*`,
which as If-None-Match would mean "whatever you have"; lists; and unquoted tags, which each server
compares as it likes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from scraper.domain import NO_VALIDATORS, LastReading, LeasedPage, Validators

# The interval times this, where a whole one passed without a change.
GROWS = 1.5
# The interval times this, where the page changed within a whole one.
SHRINKS = 0.5
# The changes to be expected in one interval: 0.46.
C = math.log(1 + math.log(GROWS) / -math.log(SHRINKS))
GAIN = math.log(GROWS) / C
# The share of looks after a whole interval that find nothing new: 63 %.
QUIET = math.exp(-C)
# A look that comes later than this many intervals says no more, so that no step is too long.
LATE_MAX = 3.0


# A tag of more characters than this is not kept.
ETAG_MAX = 512

# RFC 9110, 8.8.3, without the bytes beyond ASCII that it allows for old servers' sake.
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"').fullmatch
# RFC 9110, 5.6.7. The two obsolete formats are not written by anybody who should be believed.
_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) "
    r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4}) (\d\d:\d\d:\d\d) GMT",
    re.ASCII,
).fullmatch
_DATE_CHARS = len("Sun, 06 Nov 1994 08:49:37 GMT")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


class Bounds(NamedTuple):
    """The shortest and the longest interval, in seconds. Equal: all pages have the same."""

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
    """The interval of a page that has been looked at `since_s` after its last good answer. A page
    that is new, or never had an interval, begins with the shortest: what is not known is looked at
    soon.

    >>> week = Bounds(3600, 604_800)
    >>> [round(next_interval_s(week, 86_400, 86_400, changed=changed)) for changed in (True, False)]
    [43200, 129600]
    """
    if interval_s is None or since_s is None:
        return bounds.min_s
    now_s = bounds.clamped(interval_s)
    expected = C * min(max(since_s, 0.0) / now_s, LATE_MAX)
    if changed:
        return bounds.clamped(
            now_s * math.exp(-GAIN * expected / math.expm1(expected) if expected > 1e-9 else -GAIN)
        )
    return bounds.clamped(now_s * math.exp(GAIN * expected))


def read_validators(headers: Mapping[str, str], body_hash: int | None = None) -> Validators:
    """The validators of an answer, as they came. `headers` has lower-case names.

    A page may change twice within a second, so Last-Modified counts only where it is earlier than
    the answer's Date (RFC 9110, 8.8.2.2); what is later than that is wrong anyway.
    """
    etag, modified = headers.get("etag"), headers.get("last-modified")
    if etag is not None and (len(etag) > ETAG_MAX or not _ETAG(etag)):
        etag = None
    if modified is not None:
        at = _order(modified)
        date = headers.get("date")
        sent = _order(date) if date else None
        if at is None or (sent is not None and at >= sent):
            modified = None
    if etag or modified or body_hash is not None:
        return Validators(etag, modified, body_hash)
    return NO_VALIDATORS


def trusted_reading(
    page: LeasedPage, extractor_hash: int | None, believed_s: float
) -> LastReading | None:
    """The page's last reading, with whose validators it is asked; None where a 304, or the same
    content, would say too little.

    `extractor_hash` is what would read the page now (None: nobody can say): another one finds other
    things on the same page. `believed_s`: for how long a page is not read whole. Nor does a page
    that seems to be blocked say anything by a 304."""
    stored = page.last_reading
    if (
        stored is None
        or extractor_hash is None
        or stored.extractor_hash != extractor_hash
        or page.blocked
    ):
        return None
    return stored if stored.read_s < believed_s else None


def _order(date: str) -> tuple[str, int, str, str] | None:
    return _parsed(date) if len(date) == _DATE_CHARS else None


# The cache is small: a shop's pages have few dates of change, and many share one.
@lru_cache(maxsize=512)
def _parsed(date: str) -> tuple[str, int, str, str] | None:
    match = _DATE(date)
    return (match[3], _MONTHS.index(match[2]), match[1], match[4]) if match else None
