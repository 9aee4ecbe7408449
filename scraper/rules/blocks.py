"""Whether an answer is the shop's page, or a block: somebody who keeps us out and says so. Pure,
standard library only.

A block is found by what names it: a header, a known challenge page (`rules.block_signatures`), the
site's own markers, the status alone; and, where nothing names it, by extraction: what the page used
to have is missing. Asked of every answer, so a good page must cost next to nothing: a few lookups
among its headers, its title, and one count of its links. Challenges link to next to nothing, shop
pages to dozens of pages; only a page with few links is searched for the known texts.

What is no block: 401 and 451 (refusals that another address does not change), 402 (they want to be
paid), 404 and 410, 429 and 503 (throttling, or a fault) unless a sign says otherwise, Cloudflare's
1015 (429: throttling), a plain 405, a shop behind a password, and a 403 of an object store, which
is how those say that there is nothing.

Known weaknesses: a challenge with many links and a title of the shop's own is missed, as is one
that is compressed into a script; extraction catches those. Pages are searched as bytes: UTF-16 is
not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from scraper.rules.block_signatures import PAGE_MAX, SIGNS, Sign

LINKS_MAX = 20
# The site's own markers are looked for in so many bytes of a page.
MARKER_MAX = 262_144
# A title begins within so many bytes.
_HEAD_MAX = 4096
_TITLE_MAX = 300
_EARLY = 16_384

By = Literal["status", "headers", "page", "marker", "extraction"]


@dataclass(frozen=True, slots=True)
class Block:
    """Somebody keeps us out. `sign` is a short stable slug (`cloudflare-challenge`), for keys and
    metrics; `vendor` is for people; `by` says what gave it away."""

    sign: str
    vendor: str
    by: By

    def __str__(self) -> str:
        return f"blocked ({self.sign}): {self.vendor}, known by its {self.by}"


FIELDS_MISSING = Block("fields-missing", "what the page used to have is missing", "extraction")


@dataclass(frozen=True, slots=True)
class Marker:
    """A sign of the site's own. All that is given must hold; `described` is for people.

    texts   any of these bytes stands in the page: one text in the character sets that shops use
    page    is asked of the page's bytes and its content type; url: of the final URL. Neither may
    raise.
    """

    described: str
    statuses: frozenset[int] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()
    texts: tuple[bytes, ...] = ()
    page: Callable[[bytes, str], bool] | None = None
    url: Callable[[str], bool] | None = None

    def found(self, status: int, headers: Mapping[str, str], body: bytes, url: str) -> bool:
        if self.statuses and status not in self.statuses:
            return False
        if not all(name in headers and part in headers[name] for name, part in self.headers):
            return False
        if self.url is not None and not self.url(url):
            return False
        start = body[:MARKER_MAX] if self.texts or self.page is not None else b""
        if self.texts and not any(text in start for text in self.texts):
            return False
        return self.page is None or self.page(start, headers.get("content-type", ""))


def detect_block(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    markers: Sequence[Marker] = (),
    *,
    url: str = "",
) -> Block | None:
    """What keeps us out, or None. `headers` has lower-case names; `body` is unpacked, in the page's
    own character set; `url` is the final one, for the site's markers.

    `detect(200, {"cf-mitigated": "challenge"}, b"")` is a Block; `detect(200, {"server":
    "cloudflare"}, b"<h1>Tea")` is None.
    """
    sign = _by_headers(status, headers) or (_by_page(status, headers, body) if body else None)
    if sign is not None:
        return sign
    for marker in markers:
        if marker.found(status, headers, body, url):
            return Block("marker", f"the site's own marker: {marker.described}", "marker")
    if status in _BY_STATUS and _STORE_DENIES not in body[:1024]:
        return _BY_STATUS[status]
    return None


def judge_missing_fields(
    *, good_before: bool, suspected_before: bool, other_way: bool
) -> Block | None:
    """What to make of a page without its required fields: a block that nothing names, or, with
    None, today's rule.

    good_before       an earlier crawl had them from this page
    suspected_before  this crawl has looked a second time already
    other_way         there is a higher level to look through (other proxies were asked before)

    A suspect is tried once more through the other way, uncharged. If it lacks them there too, its
    layout has changed, or it has no price any more: an ordinary invalid page. A suspicion is no
    news of the host (`rules.escalation`): a redesign makes suspects of a whole catalogue, and must
    not send it through residential proxies.
    """
    return FIELDS_MISSING if good_before and not suspected_before and other_way else None


def _block(sign: Sign) -> Block:
    by: By = "page" if sign.titles or sign.body else "headers" if sign.headers else "status"
    return Block(sign.sign, sign.vendor, by)


# S3 and its like answer so where nobody may list what there is.
_STORE_DENIES = b"<Code>AccessDenied</Code>"
_BY_HEADER = [
    (sign, _block(sign)) for sign in SIGNS if sign.headers and not sign.titles and not sign.body
]
_BY_TITLE = [(sign, _block(sign)) for sign in SIGNS if sign.titles]
_BY_BODY = [(sign, _block(sign)) for sign in SIGNS if sign.body and not sign.titles]
_BY_STATUS = {
    status: _block(sign)
    for sign in SIGNS
    if not (sign.headers or sign.titles or sign.body)
    for status in sign.statuses
}
_HEADER_NAMES = frozenset(name for sign, _ in _BY_HEADER for name, _ in sign.headers)
_TITLES = tuple(title for sign, _ in _BY_TITLE for title in sign.titles)


def _by_headers(status: int, headers: Mapping[str, str]) -> Block | None:
    if _HEADER_NAMES.isdisjoint(headers):
        return None
    return next((block for sign, block in _BY_HEADER if _fits(sign, status, headers)), None)


def _fits(sign: Sign, status: int, headers: Mapping[str, str]) -> bool:
    """Whether the status and the headers are as the sign says."""
    if sign.statuses and status not in sign.statuses:
        return False
    return all(name in headers and part in headers[name].lower() for name, part in sign.headers)


def _by_page(status: int, headers: Mapping[str, str], body: bytes) -> Block | None:
    if "html" not in headers.get("content-type", "html").lower():
        return None
    title = _title(body)
    if title.startswith(_TITLES):
        for sign, block in _BY_TITLE:
            named = title in sign.titles if sign.whole else title.startswith(sign.titles)
            if named and _fits(sign, status, headers) and _holds(body, sign):
                return block
    if len(body) > PAGE_MAX or (status < 400 and _many_links(body)):
        return None
    for sign, block in _BY_BODY:
        if sign.body[0] in body and _fits(sign, status, headers) and _holds(body, sign):
            return block
    return None


def _holds(body: bytes, sign: Sign) -> bool:
    return all(body.find(part, 0, PAGE_MAX) >= 0 for part in sign.body)


def _many_links(body: bytes) -> bool:
    """More than `LINKS_MAX`. Most pages show it early, so that a long one need not be read
    whole."""
    early = body.count(b"<a ", 0, _EARLY)
    return early > LINKS_MAX or early + body.count(b"<a ", _EARLY) > LINKS_MAX


def _title(body: bytes) -> bytes:
    """In lower case, white space collapsed; b"" where there is none near the page's start."""
    at = body.find(b"<title", 0, _HEAD_MAX)
    if at < 0:
        at = body.find(b"<TITLE", 0, _HEAD_MAX)
        if at < 0:
            return b""
    start = body.find(b">", at, at + _TITLE_MAX) + 1
    if not start:
        return b""
    end = body.find(b"<", start, start + _TITLE_MAX)
    return b" ".join(body[start : end if end >= 0 else start + _TITLE_MAX].split()).lower()


# Others send their visitors there; hosts below them count.
_HOSTS = {
    "perfdrive.com": Block("radware", "Radware (ShieldSquare)", "headers"),
    "queue-it.net": Block("queue-it", "Queue-it", "headers"),
    "captcha-delivery.com": Block("datadome", "DataDome", "headers"),
}
_PATHS = {
    "/_____tmd_____/punish": Block("alibaba-punish", "Alibaba (baxia, x5sec)", "headers"),
    "/.well-known/sgcaptcha": Block("siteground-captcha", "SiteGround", "headers"),
    "/.lsrecap/recaptcha": Block("litespeed-captcha", "LiteSpeed", "headers"),
    "/.within.website/x/cmd/anubis": Block("anubis", "Anubis", "headers"),
    "/errors/validatecaptcha": Block("amazon-captcha", "Amazon", "headers"),
    "/splashui/challenge": Block("ebay-interruption", "eBay", "headers"),
    "/splashui/captcha": Block("ebay-interruption", "eBay", "headers"),
    "/sorry/index": Block("google-sorry", "Google", "headers"),
    "/showcaptcha": Block("yandex-captcha", "Yandex SmartCaptcha", "headers"),
}
_GENERIC = Block("redirect-captcha", "an unknown captcha", "headers")
_CAPTCHA_PATHS = frozenset(
    {
        *(
            "/captcha",
            "/recaptcha",
            "/robot-check",
            "/bot-check",
            "/are-you-human",
            "/verify-human",
        ),
        *("/captcha.html", "/captcha.php"),
    }
)
_CHALLENGE_PATHS = frozenset({"/challenge", "/checkpoint", "/blocked", "/security-check"})
_BACK = frozenset(
    {
        *("return_to", "returnto", "return_url", "returnurl", "return", "redirect", "redirect_url"),
        *("redirecturl", "redirect_uri", "url", "next", "continue", "back", "backurl", "ru"),
    }
)


def detect_block_redirect(location: str) -> Block | None:
    """What a redirect's Location, absolute or relative, or the final URL of a page that was
    redirected says. Not for the URL that was asked for: a shop may sell under /challenge.

    `detect_redirect("https://shop.queue-it.net/?c=shop&e=sale")` is a Block; so is
    `/checkpoint?return_to=%2Fp%2F1`; `/challenge`, a page of the shop's own for all one knows, is
    None.
    """
    try:
        parts = urlsplit(location[:4000].strip())
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    for name, block in _HOSTS.items():
        if host == name or host.endswith("." + name):
            return block
    path = parts.path.lower().rstrip("/")
    for start, block in _PATHS.items():
        if path == start or path.startswith(start + "/"):
            return block
    if path in _CAPTCHA_PATHS:
        return _GENERIC
    if path in _CHALLENGE_PATHS and _leads_back(parts.query):
        return _GENERIC
    return None


def _leads_back(query: str) -> bool:
    """True for a query that says where to go once the challenge is passed: somewhere of a host's
    own."""
    given = parse_qsl(query[:2000])
    # PerimeterX has the URL in base64 there, at Walmart.
    if {"url", "uuid", "vid"} <= {name for name, _ in given}:
        return True
    return any(name.lower() in _BACK and value.startswith(("/", "http")) for name, value in given)
