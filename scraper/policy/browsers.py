"""Header sets as current browsers send them on a visit, each consistent in itself. Pure.

For sites with `user_agent: browser`. The list is kept by hand: bring it up to date when browsers have moved on by some
versions, all sets together, and change `AS_OF`. Two things no list can mend: `Accept-Encoding` names only what can be
unpacked here, where a browser of today adds `br, zstd`; and TLS and HTTP/2 look like what they are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

BROWSER = "browser"  # the `user_agent:` that asks for one of these
AS_OF = "2025-11"

Pairs = tuple[tuple[str, str], ...]

_CHROME_ACCEPT = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
_LANGUAGES = {
    "at": "de-AT,de;q=0.9,en;q=0.8", "be": "nl-BE,nl;q=0.9,fr;q=0.8,en;q=0.7", "br": "pt-BR,pt;q=0.9,en;q=0.8",
    "ca": "en-CA,en;q=0.9,fr;q=0.8", "ch": "de-CH,de;q=0.9,fr;q=0.8,en;q=0.7", "cz": "cs-CZ,cs;q=0.9,en;q=0.8",
    "de": "de-DE,de;q=0.9,en;q=0.8", "dk": "da-DK,da;q=0.9,en;q=0.8", "es": "es-ES,es;q=0.9,en;q=0.8",
    "eu": "en-GB,en;q=0.9", "fi": "fi-FI,fi;q=0.9,en;q=0.8", "fr": "fr-FR,fr;q=0.9,en;q=0.8",
    "gb": "en-GB,en;q=0.9", "ie": "en-IE,en;q=0.9", "it": "it-IT,it;q=0.9,en;q=0.8", "jp": "ja-JP,ja;q=0.9,en;q=0.8",
    "nl": "nl-NL,nl;q=0.9,en;q=0.8", "no": "nb-NO,nb;q=0.9,en;q=0.8", "pl": "pl-PL,pl;q=0.9,en;q=0.8",
    "pt": "pt-PT,pt;q=0.9,en;q=0.8", "se": "sv-SE,sv;q=0.9,en;q=0.8", "uk": "en-GB,en;q=0.9",
    "us": "en-US,en;q=0.9",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Browser:
    """`brands` and `platform` are what Chromium says of itself (client hints), and only to https hosts."""

    user_agent: str
    brands: str | None = None
    platform: str | None = None


def _chromium(system: str, platform: str, brands: str, version: int, edge: bool = False) -> Browser:
    agent = f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Safari/537.36"
    return Browser(f"{agent} Edg/{version}.0.0.0" if edge else agent, brands, platform)


def _firefox(system: str, version: int) -> Browser:
    return Browser(f"Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0")


_WINDOWS, _MAC = "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7"
_CHROME = '"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"'
BROWSERS = (
    _chromium(_WINDOWS, "Windows", _CHROME, 142),
    _chromium(_MAC, "macOS", _CHROME, 142),
    _chromium(
        _WINDOWS, "Windows", '"Chromium";v="142", "Microsoft Edge";v="142", "Not_A Brand";v="99"', 142, edge=True
    ),
    _firefox("Windows NT 10.0; Win64; x64", 145),
    _firefox("Macintosh; Intel Mac OS X 10.15", 145),
)


def headers(seed: str, region: str | None, accept_encoding: str, *, secure: bool) -> Pairs:
    """The headers of the browser that `seed` (a proxy's id) has, in its order: the same for the same seed, everywhere.

    `secure`: for an https host. Plain http gets no client hints and no fetch metadata, as from a browser.
    """
    browser = BROWSERS[int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") % len(BROWSERS)]
    languages = _LANGUAGES.get((region or "us").partition("-")[0], _LANGUAGES["us"])
    fetch = [("Sec-Fetch-Dest", "document"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Site", "none"),
             ("Sec-Fetch-User", "?1")] if secure else []  # fmt: skip
    if browser.brands is None:
        return (
            ("User-Agent", browser.user_agent),
            ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            ("Accept-Language", languages.replace("q=0.9", "q=0.7").replace("q=0.8", "q=0.5")),
            ("Accept-Encoding", accept_encoding),
            ("Upgrade-Insecure-Requests", "1"),
            *fetch,
        )
    hints = [("sec-ch-ua", browser.brands), ("sec-ch-ua-mobile", "?0"), ("sec-ch-ua-platform", f'"{browser.platform}"')]
    return (
        *(hints if secure else ()),
        ("Upgrade-Insecure-Requests", "1"),
        ("User-Agent", browser.user_agent),
        ("Accept", _CHROME_ACCEPT),
        *([fetch[2], fetch[1], fetch[3], fetch[0]] if secure else ()),
        ("Accept-Encoding", accept_encoding),
        ("Accept-Language", languages),
    )
