"""Distinguishes the shop's page from a block page or challenge. Pure, standard library only.

A block is recognised by what names it: a header, a known challenge page (`rules.block_signatures`),
the site's own markers, or only the status; and, where nothing names it, by extraction: fields that
the page used to have are missing. This runs for every response, so a good page must cost hardly
anything: a few lookups among its headers, its title, and one count of its links. Challenges have
hardly any links, shop pages dozens; only a page with few links is searched for the known texts.

These are not blocks: 401 and 451 (another address does not change such refusals), 402 (payment is
required), 404 and 410, 429 and 503 (throttling, or a fault) unless a sign says otherwise,
Cloudflare's 1015 (429: throttling), a plain 405, a shop behind a password, and a 403 of an object
store, which means that the object does not exist.

Known weaknesses: a challenge with many links and the shop's own title is missed, as is one that is
compressed into a script; extraction catches those. Pages are searched as bytes, so not in UTF-16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from scraper.rules.block_signatures import PAGE_MAX, SIGNS, Sign

LINKS_MAX = 20
# The site's own markers are searched in this many bytes of a page.
MARKER_MAX = 262_144
# A title begins within this many bytes.
_HEAD_MAX = 4096
_TITLE_MAX = 300
_EARLY = 16_384

By = Literal["status", "headers", "page", "marker", "extraction"]


@dataclass(frozen=True, slots=True)
class Block:
    """A block page or challenge. `sign` is a short stable slug (`cloudflare-challenge`) for keys
    and metrics; `vendor` is for people; `by` is how it was recognised."""

    sign: str
    vendor: str
    by: By

    def __str__(self) -> str:
        return f"blocked ({self.sign}): {self.vendor}, known by its {self.by}"


FIELDS_MISSING = Block("fields-missing", "what the page used to have is missing", "extraction")


@dataclass(frozen=True, slots=True)
class Marker:
    """A sign that the site's definition gives. Every given part must match; `described` is for
    people.

    texts   the page contains any of these: one text in the character sets that shops use
    page    receives the page's bytes and its content type, `url` the final URL; neither may raise
    """

    described: str
    statuses: frozenset[int] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()
    texts: tuple[bytes, ...] = ()
    page: Callable[[bytes, str], bool] | None = None
    url: Callable[[str], bool] | None = None

    def matches(self, status: int, headers: Mapping[str, str], body: bytes, url: str) -> bool:
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
    """Returns the block, or None for a page. `headers` has lower-case names; `body` is unpacked, in
    the page's own character set; `url` is the final one, for the site's markers.

    `detect(200, {"cf-mitigated": "challenge"}, b"")` is a Block; `detect(200, {"server":
    "cloudflare"}, b"<h1>Tea")` is None.
    """
    sign = _match_headers(status, headers) or (_match_page(status, headers, body) if body else None)
    if sign is not None:
        return sign
    for marker in markers:
        if marker.matches(status, headers, body, url):
            return Block("marker", f"the site's own marker: {marker.described}", "marker")
    if status in _BY_STATUS and _STORE_DENIES not in body[:1024]:
        return _BY_STATUS[status]
    return None


def judge_missing_fields(
    *, good_before: bool, suspected_before: bool, other_way: bool
) -> Block | None:
    """Returns a block for a page without its required fields that may be an unknown challenge, or
    None for an ordinary invalid page.

    good_before       an earlier crawl got these fields from this page
    suspected_before  this crawl has suspected the page already
    other_way         there is a higher level to try (other proxies were tried before)

    A suspected page is tried again at the other level, uncharged. If it lacks the fields there
    too, its layout has changed, or it no longer has a price. A suspicion says nothing about the
    host (`rules.escalation`): a redesign makes a whole catalogue suspicious, and must not send it
    through residential proxies.
    """
    return FIELDS_MISSING if good_before and not suspected_before and other_way else None


def _make_block(sign: Sign) -> Block:
    by: By = "status"
    if sign.titles or sign.body:
        by = "page"
    elif sign.headers:
        by = "headers"
    return Block(sign.sign, sign.vendor, by)


# S3 and similar stores answer this for a missing object where listing is forbidden.
_STORE_DENIES = b"<Code>AccessDenied</Code>"
_BY_HEADER = [
    (sign, _make_block(sign))
    for sign in SIGNS
    if sign.headers and not sign.titles and not sign.body
]
_BY_TITLE = [(sign, _make_block(sign)) for sign in SIGNS if sign.titles]
_BY_BODY = [(sign, _make_block(sign)) for sign in SIGNS if sign.body and not sign.titles]
_BY_STATUS = {
    status: _make_block(sign)
    for sign in SIGNS
    if not (sign.headers or sign.titles or sign.body)
    for status in sign.statuses
}
_HEADER_NAMES = frozenset(name for sign, _ in _BY_HEADER for name, _ in sign.headers)
_TITLES = tuple(title for sign, _ in _BY_TITLE for title in sign.titles)


def _match_headers(status: int, headers: Mapping[str, str]) -> Block | None:
    if _HEADER_NAMES.isdisjoint(headers):
        return None
    return next((block for sign, block in _BY_HEADER if _fits_sign(sign, status, headers)), None)


def _fits_sign(sign: Sign, status: int, headers: Mapping[str, str]) -> bool:
    """Returns whether the status and the headers match the sign."""
    if sign.statuses and status not in sign.statuses:
        return False
    return all(name in headers and part in headers[name].lower() for name, part in sign.headers)


def _match_page(status: int, headers: Mapping[str, str], body: bytes) -> Block | None:
    if "html" not in headers.get("content-type", "html").lower():
        return None
    title = _read_title(body)
    if title.startswith(_TITLES):
        for sign, block in _BY_TITLE:
            named = title in sign.titles if sign.whole else title.startswith(sign.titles)
            if named and _fits_sign(sign, status, headers) and _contains_all(body, sign):
                return block
    if len(body) > PAGE_MAX or (status < 400 and _has_many_links(body)):
        return None
    for sign, block in _BY_BODY:
        if sign.body[0] in body and _fits_sign(sign, status, headers) and _contains_all(body, sign):
            return block
    return None


def _contains_all(body: bytes, sign: Sign) -> bool:
    return all(body.find(part, 0, PAGE_MAX) >= 0 for part in sign.body)


def _has_many_links(body: bytes) -> bool:
    """Returns whether there are more than `LINKS_MAX` links. Most pages have them early, so a long
    page is hardly ever read whole."""
    early = body.count(b"<a ", 0, _EARLY)
    return early > LINKS_MAX or early + body.count(b"<a ", _EARLY) > LINKS_MAX


def _read_title(body: bytes) -> bytes:
    """Returns the title in lower case, white space collapsed; b"" without one near the page's
    start."""
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


# Other sites redirect their visitors to these hosts, or to hosts below them.
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
    """Returns the block that a redirect leads to, or None. `location` is absolute or relative, or
    the final URL of a redirected page; never the requested URL, since a shop may have /challenge.

    `detect_block_redirect("https://shop.queue-it.net/?c=shop&e=sale")` is a Block, and so is
    `/checkpoint?return_to=%2Fp%2F1`; `/challenge` alone may be the shop's own page, and gives None.
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
    """Returns whether the query names a URL to return to after the challenge."""
    given = parse_qsl(query[:2000])
    # At Walmart, PerimeterX has the URL in base64.
    if {"url", "uuid", "vid"} <= {name for name, _ in given}:
        return True
    return any(name.lower() in _BACK and value.startswith(("/", "http")) for name, value in given)
