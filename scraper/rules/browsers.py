"""Header sets as current browsers send them, each consistent in itself. Pure.

They are for sites with `user_agent: browser`. The versions are maintained by hand: when browsers
have moved on, update all of them together, and `AS_OF`; Chromium's brands follow from its version.
Headers cannot hide the client's TLS and HTTP/2 fingerprints; `impersonate` does (`adapt_headers`
fits its headers to a site).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# The value of `user_agent:` that selects one of these.
BROWSER = "browser"
# The value of `impersonate:` that leaves the browser to the identity.
ANY = "any"
IMPERSONATED = ("chrome", "firefox", "safari")
AS_OF = "2026-11"
# The stable versions at that time.
CHROMIUM, FIREFOX = 156, 157

# For https; over plain http browsers accept only the first two.
ACCEPT_ENCODING = "gzip, deflate, br, zstd"

Pairs = tuple[tuple[str, str], ...]

_CHROME_ACCEPT = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/jxl,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
_LANGUAGES = {
    "at": "de-AT,de;q=0.9,en;q=0.8", "be": "nl-BE,nl;q=0.9,fr;q=0.8,en;q=0.7",
    "br": "pt-BR,pt;q=0.9,en;q=0.8",
    "ca": "en-CA,en;q=0.9,fr;q=0.8", "ch": "de-CH,de;q=0.9,fr;q=0.8,en;q=0.7",
    "cz": "cs-CZ,cs;q=0.9,en;q=0.8",
    "de": "de-DE,de;q=0.9,en;q=0.8", "dk": "da-DK,da;q=0.9,en;q=0.8",
    "es": "es-ES,es;q=0.9,en;q=0.8",
    "eu": "en-GB,en;q=0.9", "fi": "fi-FI,fi;q=0.9,en;q=0.8", "fr": "fr-FR,fr;q=0.9,en;q=0.8",
    "gb": "en-GB,en;q=0.9", "ie": "en-IE,en;q=0.9", "it": "it-IT,it;q=0.9,en;q=0.8",
    "jp": "ja-JP,ja;q=0.9,en;q=0.8",
    "nl": "nl-NL,nl;q=0.9,en;q=0.8", "no": "nb-NO,nb;q=0.9,en;q=0.8",
    "pl": "pl-PL,pl;q=0.9,en;q=0.8",
    "pt": "pt-PT,pt;q=0.9,en;q=0.8", "se": "sv-SE,sv;q=0.9,en;q=0.8", "uk": "en-GB,en;q=0.9",
    "us": "en-US,en;q=0.9",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Browser:
    """`brands` and `platform` are Chromium's client hints, which only https hosts receive."""

    user_agent: str
    brands: str | None = None
    platform: str | None = None


SEC_FETCH = (
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "none"),
    ("Sec-Fetch-User", "?1"),
)
_GREASE_CHARS = (" ", "(", ":", "-", ".", "/", ")", ";", "=", "?", "_")
_GREASE_VERSIONS = ("8", "99", "24")
_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


def client_hint_brands(version: int, name: str) -> str:
    """Returns sec-ch-ua of a Chromium browser, as components/embedder_support/user_agent_utils.cc
    builds it: the version seeds the invented brand's punctuation, its version, and the order.

    >>> client_hint_brands(142, "Google Chrome")
    '"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"'
    """
    first, second = (_GREASE_CHARS[(version + n) % len(_GREASE_CHARS)] for n in (0, 1))
    invented = f'"Not{first}A{second}Brand";v="{_GREASE_VERSIONS[version % len(_GREASE_VERSIONS)]}"'
    shown = [""] * 3
    for position, brand in zip(
        _ORDERS[version % len(_ORDERS)],
        (invented, f'"Chromium";v="{version}"', f'"{name}";v="{version}"'),
        strict=True,
    ):
        shown[position] = brand
    return ", ".join(shown)


def _make_chromium(
    system: str, platform: str, version: int, name: str = "Google Chrome"
) -> Browser:
    engine = "AppleWebKit/537.36 (KHTML, like Gecko)"
    agent = f"Mozilla/5.0 ({system}) {engine} Chrome/{version}.0.0.0 Safari/537.36"
    agent = f"{agent} Edg/{version}.0.0.0" if name == "Microsoft Edge" else agent
    return Browser(agent, client_hint_brands(version, name), platform)


def _make_firefox(system: str, version: int) -> Browser:
    return Browser(f"Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0")


_WINDOWS, _MAC = "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7"
BROWSERS = (
    _make_chromium(_WINDOWS, "Windows", CHROMIUM),
    _make_chromium(_MAC, "macOS", CHROMIUM),
    _make_chromium(_WINDOWS, "Windows", CHROMIUM, "Microsoft Edge"),
    _make_firefox("Windows NT 10.0; Win64; x64", FIREFOX),
    _make_firefox("Macintosh; Intel Mac OS X 10.15", FIREFOX),
)


def _draw_index(seed: str, count: int) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") % count


def choose_browser(wanted: str, seed: str) -> str:
    """Returns the browser whose handshake an identity has: the wanted one, or for `ANY` the same
    one for the same seed."""
    return IMPERSONATED[_draw_index(seed, len(IMPERSONATED))] if wanted == ANY else wanted


def accept_language(region: str | None) -> str:
    return _LANGUAGES.get((region or "us").partition("-")[0], _LANGUAGES["us"])


def adapt_headers(profile: Pairs, region: str | None, *, secure: bool) -> Pairs:
    """Returns a profile's headers with the languages of a region, and over plain http without those
    that browsers send only to https hosts."""
    pairs = []
    for name, value in profile:
        key = name.lower()
        if not secure and key.startswith(("sec-", "te")):
            continue
        if key == "accept-language" and region is not None:
            value = accept_language(region)
        elif key == "accept-encoding" and not secure:
            value = "gzip, deflate"
        pairs.append((name, value))
    return tuple(pairs)


def browser_headers(seed: str, region: str | None, accept_encoding: str, *, secure: bool) -> Pairs:
    """Returns the headers of the browser that `seed` (a proxy's id) selects, in its order: the same
    for the same seed in every process.

    `secure`: for an https host. Like a browser, it sends client hints and fetch metadata only
    there.
    """
    browser = BROWSERS[_draw_index(seed, len(BROWSERS))]
    fetch = list(SEC_FETCH) if secure else []
    if browser.brands is None:
        return (
            ("User-Agent", browser.user_agent),
            ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            ("Accept-Language", accept_language(region)),
            ("Accept-Encoding", accept_encoding),
            ("Connection", "keep-alive"),
            ("Upgrade-Insecure-Requests", "1"),
            *fetch,
            ("Priority", "u=0, i"),
        )
    hints = [
        ("sec-ch-ua", browser.brands),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", f'"{browser.platform}"'),
    ]
    return (
        ("Connection", "keep-alive"),
        *(hints if secure else ()),
        ("Upgrade-Insecure-Requests", "1"),
        ("User-Agent", browser.user_agent),
        ("Accept", _CHROME_ACCEPT),
        *([fetch[2], fetch[1], fetch[3], fetch[0]] if secure else ()),
        ("Accept-Encoding", accept_encoding),
        ("Accept-Language", accept_language(region)),
    )
