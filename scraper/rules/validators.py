"""A page's validators (RFC 9110, 8.8): which of an answer are kept, and when they are sent. Pure.

What a server sends as a validator comes back to it as a request header, and decides whether its
next answer is believed to be what is stored. So it is kept only where it is, to the letter, what
RFC 9110 calls one, and short. That leaves out what is dangerous: line breaks; `*`, which as
If-None-Match would mean "whatever you have"; lists; and unquoted tags, which each server compares
as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from scraper.domain import NO_VALIDATORS, LeasedPage, Validators

# characters; longer ones are no tags
ETAG_MAX = 512

# RFC 9110, 8.8.3, without the bytes beyond ASCII that it allows for old servers' sake.
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"').fullmatch
# RFC 9110, 5.6.7. The two obsolete formats are not written by anybody who should be believed.
_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4}) (\d\d:\d\d:\d\d) GMT",
    re.ASCII,
).fullmatch
_DATE_CHARS = len("Sun, 06 Nov 1994 08:49:37 GMT")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


def validators_of(headers: Mapping[str, str]) -> Validators:
    """Those of an answer, as they came. `headers` has lower-case names.

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
    return Validators(etag, modified) if etag or modified else NO_VALIDATORS


def validators_to_send(page: LeasedPage, read_by: int | None, believed_s: float) -> Validators:
    """Those that a page is asked with; none where a 304 would say too little.

    `read_by` is what would read the page now (None: nobody can say): another one finds other things
    on the same page. `believed_s`: for how long a page is not read whole. Nor does a page that
    seems to be blocked say anything by a 304.
    """
    known = page.known
    if known is None or read_by is None or known.read_by != read_by or page.blocked:
        return NO_VALIDATORS
    return known.validators if known.read_s < believed_s else NO_VALIDATORS


def _order(date: str) -> tuple[str, int, str, str] | None:
    return _parsed(date) if len(date) == _DATE_CHARS else None


# a shop's pages have few dates of change, and those of one second one date
@lru_cache(maxsize=512)
def _parsed(date: str) -> tuple[str, int, str, str] | None:
    found = _DATE(date)
    return (found[3], _MONTHS.index(found[2]), found[1], found[4]) if found else None
