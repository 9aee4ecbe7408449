"""Normalises links: cleaned to be requested, canonical to be compared; and finds their hosts. Pure.

A URL has three forms:

- *clean*: absolute, as a browser would request it, without fragment, tracking parameters and
  default port. Requested.
- *canonical*: clean, with the query sorted and percent-encodings normalised (w3lib's rules).
  Compared, never requested.
- *fingerprint*: 16 bytes of BLAKE2b over the canonical form. Stored, unique per site.

The path's case and its trailing slash stay: on many servers they name different pages. No function
raises for any `str`: the result for a link that is not a web page is None. The fetcher judges
addresses, when it connects.

Plain URLs (ASCII, nothing to escape, no dots to resolve) take a fast path of one or two regular
expressions; property tests check that both paths agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import quote, unquote_plus, urljoin, urlsplit
from uuid import UUID

import idna
from w3lib.url import canonicalize_url, safe_url_string

# Every browser and proxy accepts this length; longer links are traps far more often than pages.
URL_MAX_CHARS = 2000

# Parameters that say where a visitor came from, and never select a page. Sources: the vendors'
# own pages (Google Ads and Analytics, Microsoft Ads, Meta, TikTok, X, Yandex, Mailchimp, HubSpot,
# Matomo, Klaviyo, Adobe) and the lists that Brave, Firefox (strip-on-share) and ClearURLs strip by
# default.
TRACKING_PARAMS = frozenset({
    # Google Ads and Merchant.
    "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid",
    # Google Analytics' cross-domain linker, then Meta.
    "_ga", "_gl", "_gac",
    "fbclid", "igshid", "igsh",
    # Microsoft, TikTok, X, LinkedIn and others.
    "msclkid", "ttclid", "twclid", "li_fat_id", "epik", "rdt_cid", "sccid",
    # Yandex.
    "yclid", "ysclid", "_openstat",
    # Mailchimp and HubSpot.
    "mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking",
    # Mail and affiliates.
    "mkt_tok", "_kx", "oly_anon_id", "oly_enc_id", "vero_id", "s_cid", "wickedid", "irclickid",
})  # fmt: skip
# Google's campaign tags, Matomo's and its older Piwik names.
TRACKING_PREFIXES = ("utm_", "mtm_", "matomo_", "pk_")

# Parameters and parts of paths with which servers name a visit, for visitors without cookies. The
# names of a few letters have other uses, so their value must look like an identifier as well.
SESSION_PARAMS = frozenset({
    "phpsessid", "jsessionid", "oscsid", "ocsessid", "zenid", "xtcsid", "gxsid", "modsid", "cfid",
    "cftoken", "sessionid", "session_id", "sessid", "sess_id", "sessionkey", "aspsessionid",
    "asp.net_sessionid", "force_sid", "shopsid", "xoid", "s_id", "___sid", "frontend_sid",
})  # fmt: skip
_SHORT_SESSION = re.compile(
    r"(?:[a-z]*sid|s|sess|session)=(?=[^&]*\d)[0-9a-z,_-]{16,}", re.IGNORECASE
).fullmatch
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sid|sessionid)=[^/;?]*|/\([A-Za-z]\([^/()]{8,}\)[^/]*\)(?=/)",
    re.IGNORECASE,
).sub
# C0 controls and space (WHATWG URL, "basic URL parser", steps 1–3).
_JUNK = "".join(map(chr, range(0x21)))
_TABS = str.maketrans("", "", "\t\n\r")
_ORIGIN = (
    r"(https?://(?:(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
    r"|(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?!/|:|$)|(?=[/:]|$))){4})"
    r"(?::(?!(?:80|443)(?![0-9]))(?:[1-5][0-9]{4}|[1-9][0-9]{0,3}))?)"
)
_SEGMENTS = r"[A-Za-z0-9_~-]+(?:[./][A-Za-z0-9_~-]+)*/?"
_QUERY = r"(?:\?([A-Za-z0-9_.~-]+=[A-Za-z0-9_.~-]*(?:&[A-Za-z0-9_.~-]+=[A-Za-z0-9_.~-]*)*))?"
# Cleaning keeps a query's escapes as they are; only the canonical form may change them.
_ESCAPED = r"(?:[A-Za-z0-9_.~-]|%[0-9A-Fa-f]{2})"
_LINK_QUERY = rf"(?:\?([A-Za-z0-9_.~-]+={_ESCAPED}*(?:&[A-Za-z0-9_.~-]+={_ESCAPED}*)*))?"
# Origin, path and query that each normalisation below leaves unchanged, but for the fragment.
_PLAIN = re.compile(f"{_ORIGIN}(/(?:{_SEGMENTS})?){_QUERY}").fullmatch
_PLAIN_LINK = re.compile(f"{_ORIGIN}(/(?:{_SEGMENTS})?){_LINK_QUERY}").fullmatch
_PLAIN_REFERENCE = re.compile(rf"(/|(?:\.\./)*)({_SEGMENTS}){_LINK_QUERY}").fullmatch
# This many levels are above any folder.
_ROOT = URL_MAX_CHARS
# Longer URLs are not cached.
_CACHED_CHARS = 300
_HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*").fullmatch
_IPV6 = re.compile(r"[0-9a-f:.]{2,45}").fullmatch
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
_WEB_SCHEME = re.compile(r"https?:", re.IGNORECASE).match
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+").sub
_STRAY_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE)
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class UrlRules:
    """A site's additions: parameters to strip (globs such as `sess*`), tracking parameters to keep,
    and whether trailing slashes are dropped."""

    strip: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    strip_slash: bool = False


DEFAULT_RULES = UrlRules()


def clean(url: str, base: str | None = None, rules: UrlRules = DEFAULT_RULES) -> str | None:
    """Returns the absolute URL to request, or None for what is not a page: another scheme, a
    password, a malformed or too long URL.

    >>> clean("../b.html?utm_source=x&id=7#top", "https://shop.example/a/c/")
    'https://shop.example/a/b.html?id=7'
    """
    parts = _split_plain_link(url.partition("#")[0], base)
    if parts is None:
        return _clean_slowly(url if base is None else _join_url(url, base), rules)
    origin, path, query = parts
    if query is not None:
        query = _strip_params(query, rules)
    if rules.strip_slash and path[-1] == "/":
        path = path.rstrip("/") or "/"
    return f"{origin}{path}?{query}" if query else origin + path


def encode_query(url: str, encoding: str) -> str:
    """Returns the URL with its query in the encoding of its page, as browsers request it (WHATWG
    URL, "query state"). Raises LookupError for an unknown encoding."""
    before, mark, query = url.partition("?")

    def encode(run: re.Match[str]) -> str:
        return quote(run[0].encode(encoding, "xmlcharrefreplace"), safe="")

    return before + mark + _BEYOND_ASCII(encode, query)


def _split_plain_link(url: str, base: str | None) -> tuple[str, str, str | None] | None:
    """Returns origin, path and query of a link, absolute or relative, that needs only joining; None
    for any other link."""
    # Half the limit for each part of a joined URL: the slow path counts the characters.
    if len(url) > URL_MAX_CHARS // 2:
        return None
    match = _PLAIN_LINK(url)
    if match is not None:
        origin, path, query = match.groups()
    else:
        match = (
            _PLAIN_REFERENCE(url) if base is not None and len(base) <= URL_MAX_CHARS // 2 else None
        )
        if match is None or base is None:
            return None
        above, segments, query = match.groups()
        folder = _find_folder(base, _ROOT if above == "/" else len(above) // 3)
        if folder is None:
            return None
        origin, path = folder[0], folder[1] + segments
    # The slow path checks host names close to the limit of 253 characters.
    return (origin, path, query) if len(origin) <= 200 else None


def split_plain_url(url: str) -> tuple[str, str, str | None] | None:
    """Returns origin, path and query of a URL that each normalisation leaves unchanged; None for
    any other URL."""
    return _match_cached(url) if len(url) <= _CACHED_CHARS else _match_plain(url)


def _match_plain(url: str) -> tuple[str, str, str | None] | None:
    match = _PLAIN(url)
    return None if match is None or len(match[1]) > 200 else (match[1], match[2], match[3])


# A link's host, its fingerprint and its host again are computed within a millisecond.
_match_cached = lru_cache(maxsize=1024)(_match_plain)


def canonical(url: str) -> str:
    """Returns the form to compare: sorted query, normal percent-encodings. Idempotent; a URL that
    cannot be parsed stays as it is."""
    parts = split_plain_url(url)
    if parts is None:
        return _canonical_slowly(url)
    origin, path, query = parts
    if query is None or "&" not in query:
        return url
    pairs = sorted(pair.split("=", 1) for pair in query.split("&"))
    return f"{origin}{path}?{'&'.join(map('='.join, pairs))}"


def fingerprint(url: str) -> UUID:
    """Returns 16 bytes of BLAKE2b over the canonical URL: the frontier's key within a site."""
    return UUID(
        bytes=blake2b(canonical(url).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    )


def host_of(url: str) -> str:
    """Returns `hostname:port` in lower case, without the scheme's default port; "" without a
    host."""
    plain_parts = split_plain_url(url)
    if plain_parts is not None:
        return plain_parts[0].partition("://")[2]
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    host = f"[{host}]" if ":" in host else host.rstrip(".")
    return host if port is None or port == DEFAULT_PORTS.get(parts.scheme) else f"{host}:{port}"


def belongs_to(host: str, hosts: Iterable[str]) -> bool:
    """Returns whether `host` (as `host_of` returns it) is one of `hosts` or below it. A port counts
    only if `hosts` has one.

    >>> [belongs_to(host, {"shop.example"}) for host in ("m.shop.example:8080", "myshop.example")]
    [True, False]
    """
    name = _strip_port(host)
    for allowed in hosts:
        if ":" in allowed and _strip_port(allowed) != allowed:
            if host == allowed or host.endswith("." + allowed):
                return True
        elif name == allowed or name.endswith("." + allowed):
            return True
    return False


def split_host(host: str) -> tuple[str, int | None]:
    """Splits what `host_of` returns into name and port; a literal address loses its brackets.

    >>> split_host("[::1]:8080"), split_host("shop.example")
    (('::1', 8080), ('shop.example', None))
    """
    name = _strip_port(host)
    return name.strip("[]"), int(host[len(name) + 1 :]) if name != host else None


def _strip_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (
        name
        if colon and port.isdigit() and not (name.startswith("[") and not name.endswith("]"))
        else host
    )


def _join_url(url: str, base: str) -> str:
    """Returns the reference resolved against `base`; "" where that fails."""
    url = url.strip(_JUNK).translate(_TABS)
    if len(url) > 4 * URL_MAX_CHARS:
        return ""
    if "\\" in url and not (_SCHEME(url) and not _WEB_SCHEME(url)):
        url = _replace_backslashes(url)
    try:
        return urljoin(base, url)
    except ValueError:
        return ""


@lru_cache(maxsize=1024)
def _find_folder(base: str, levels: int) -> tuple[str, str] | None:
    """Returns the origin, and the path of the folder `levels` above the base's own, with its final
    slash; None where the base is not a plain URL."""
    match = _PLAIN(base)
    if match is None:
        return None
    folders = match[2].split("/")[1:-1]
    kept = folders[: max(0, len(folders) - levels)]
    return match[1], "/".join(["", *kept, ""])


def _clean_slowly(url: str, rules: UrlRules) -> str | None:
    url = url.strip(_JUNK).translate(_TABS)
    if len(url) > 4 * URL_MAX_CHARS or not _WEB_SCHEME(url):
        return None
    url = _replace_backslashes(url)
    scheme, _, rest = url.partition(":")
    # Browsers take http:/x and http:///x as http://x.
    try:
        parts = urlsplit(f"{scheme.lower()}://{rest.lstrip('/')}")
        if parts.username is not None or parts.password is not None:
            # Logs and the database would show the password.
            return None
        netloc = _normalize_host(parts.scheme, parts.hostname or "", parts.port)
        if netloc is None:
            return None
        safe = urlsplit(safe_url_string(f"{parts.scheme}://{netloc}{parts.path}?{parts.query}"))
    except ValueError:  # UnicodeError is one
        return None
    path = _PATH_SESSION("", _resolve_dots(safe.path or "/"))
    if rules.strip_slash:
        path = path.rstrip("/") or "/"
    query = _strip_params(safe.query, rules)
    cleaned = f"{parts.scheme}://{netloc}{path}"
    if query:
        cleaned = f"{cleaned}?{query}"
    return cleaned if len(cleaned) <= URL_MAX_CHARS else None


def _replace_backslashes(url: str) -> str:
    """Turns backslashes before the query into slashes, as browsers do (WHATWG URL, special
    schemes)."""
    if "\\" not in url:
        return url
    end = min((at for at in (url.find("?"), url.find("#")) if at >= 0), default=len(url))
    return url[:end].replace("\\", "/") + url[end:]


def _normalize_host(scheme: str, host: str, port: int | None) -> str | None:
    """Returns `host[:port]` in punycode and lower case, or None for an invalid host name."""
    if ":" in host:
        if not _IPV6(host):
            return None
        host = f"[{host}]"
    else:
        if not host.isascii():
            host = _encode_host(host)
        host = host.lower().removesuffix(".")
        if len(host) > 253 or not _HOST(host):
            return None
    if port == 0:
        return None
    return host if port is None or port == DEFAULT_PORTS[scheme] else f"{host}:{port}"


def _encode_host(host: str) -> str:
    """Returns the host in punycode, as browsers do (UTS 46, non-transitional): in IDNA 2003 the
    name with "ß" is that of another owner's host. Raises UnicodeError."""
    labels = idna.uts46_remap(host, std3_rules=False, transitional=False).split(".")
    return ".".join(
        label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels
    )


def _resolve_dots(path: str) -> str:
    """Resolves dot segments (RFC 3986, 5.2.4), with %2e as a dot, as in browsers; empty segments
    stay."""
    if not _DOT_SEGMENT.search(path):
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for position, segment in enumerate(segments):
        dots = segment.lower().replace("%2e", ".")
        if dots not in (".", ".."):
            kept.append(segment)
            continue
        if dots == ".." and kept:
            kept.pop()
        if position == len(segments) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def _strip_params(query: str, rules: UrlRules) -> str:
    """Returns the query without the parameters to strip; the others stay as they are written."""
    if not query:
        return query
    return "&".join(
        pair
        for pair in query.split("&")
        if pair
        and not _is_stripped(pair.partition("=")[0], rules)
        and not (len(pair) > 17 and _SHORT_SESSION(pair) and not rules.keep)
    )


@lru_cache(maxsize=4096)
def _is_stripped(raw_name: str, rules: UrlRules) -> bool:
    """Returns whether the rules remove a query's parameter, by its name as it is written there."""
    name = unquote_plus(raw_name).lower()
    if any(fnmatchcase(name, pattern.lower()) for pattern in rules.keep):
        return False
    if name in TRACKING_PARAMS or name in SESSION_PARAMS or name.startswith(TRACKING_PREFIXES):
        return True
    return any(fnmatchcase(name, pattern.lower()) for pattern in rules.strip)


def _canonical_slowly(url: str) -> str:
    if not _WEB_SCHEME(url):
        return url
    try:
        # Otherwise "%%30" becomes "%0", which means something else.
        return canonicalize_url(_STRAY_PERCENT.sub("%25", url))
    except ValueError:
        return url


def is_private(url: str) -> bool:
    """Returns whether the host is this machine or an address within its network."""
    name, _ = split_host(host_of(url))
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return not ip_address(name.strip("[]")).is_global
    except ValueError:
        return False
