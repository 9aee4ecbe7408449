"""Between which bounds a product page rests until it is requested again, and with which validators
it is requested. Pure. (`scraper.plugins.freshness` learns each page's own interval.)

Validators (RFC 9110, 8.8): a server receives its validator as a request header, which decides
whether its next response counts as what is stored. So a validator is stored only if it is short and
exactly what RFC 9110 allows. That excludes dangerous ones: line breaks; `*`, which as If-None-Match
would match anything; lists; and unquoted tags, which servers compare differently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from scraper.domain import NO_VALIDATORS, Validators

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


def read_validators(headers: Mapping[str, str], body_hash: int | None = None) -> Validators:
    """Returns a response's validators, unchanged. `headers` has lower-case names.

    A page may change twice within a second, so Last-Modified counts only if it is earlier than the
    response's Date (RFC 9110, 8.8.2.2); a later one is wrong anyway.
    """
    etag, modified = headers.get("etag"), headers.get("last-modified")
    # Some releases of aiohttp leave the space after a value.
    if etag is not None and (len(etag) > ETAG_MAX or not _ETAG(etag := etag.rstrip(" "))):
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


def _parse_date(date: str) -> tuple[str, int, str, str] | None:
    """Returns year, month, day and time of day, which compare as the dates do."""
    return _parse_cached(date) if len(date) == _DATE_CHARS else None


# The cache is small: many of a shop's pages share a date of change.
@lru_cache(maxsize=512)
def _parse_cached(date: str) -> tuple[str, int, str, str] | None:
    match = _DATE(date)
    return (match[3], _MONTHS.index(match[2]), match[1], match[4]) if match else None
