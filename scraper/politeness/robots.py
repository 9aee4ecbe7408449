"""robots.txt (RFC 9309): which URLs a site lets us fetch, how fast, and where its sitemaps are.

Parsing and decisions are pure; only `fetch_robots` does I/O. `scraper.politeness.robots_cache`
stores texts and parsed rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import urlsplit

from protego import Protego

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.http.fetcher import HttpFetcher
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.rules.urls import host_of

# At least 500 KiB must be parsed (RFC 9309 2.5); the rest is ignored.
ROBOTS_MAX_BYTES = 512_000
ROBOTS_REDIRECTS_MAX = 5  # RFC 9309 2.3.1.2
ROBOTS_TIMEOUT_S = 20.0
CRAWL_DELAY_MAX_S = 300.0
SITEMAPS_MAX = 1000
# Each check of a URL costs up to 4 us for each of them.
WILDCARDS_MAX = 5000
# The status stored where robots.txt could not be fetched; the body then says why.
NO_ANSWER = 0

_HEADERS = {"Accept": "text/plain,*/*;q=0.5"}
_DEFAULT_PORTS = {"http": 80, "https": 443}
_COMPATIBLE = re.compile(r"\(\s*compatible\s*;\s*([A-Za-z][A-Za-z_-]*)")
_PRODUCT = re.compile(r"[A-Za-z][A-Za-z_-]*")
# The spellings that protego accepts.
_AGENT = re.compile(
    r"^([^\S\n]*user(?:-|[^\S\n]*)agent(?:[^\S\n]*:|[^\S\n]))[^\S\n]*([^\s#][^\n#]*)", re.I | re.M
)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """robots.txt cannot be read now: everything is disallowed (RFC 9309 2.3.1.4) until the next
    request for it."""

    reason: str

    def sentence(self, host: str) -> str:
        """Returns the cause without the host's name, which the page's URL shows already."""
        return "robots.txt: " + self.reason.removeprefix(f"no connection to {host}: ")


class RobotsRules:
    """One origin's robots.txt as it applies to one product token. Immutable; `allowed` costs a few
    microseconds."""

    __slots__ = ("_rules", "_token", "crawl_delay_s", "sitemaps")

    def __init__(self, text: str, token: str) -> None:
        parsed = Protego.parse(_merge_other_agents(text, token))
        self._token = token
        # Without this syllable nothing is disallowed, in any of the spellings that protego accepts.
        self._rules = parsed if "dis" in text.lower() else None
        self.crawl_delay_s = _bound_delay(parsed.crawl_delay(token))
        self.sitemaps = [url for url in dict.fromkeys(parsed.sitemaps) if _is_http(url)][
            :SITEMAPS_MAX
        ]

    def allowed(self, url: str) -> bool:
        return self._rules is None or self._rules.can_fetch(url, self._token)


def require_allowed(
    rules: RobotsRules | Unavailable, url: str, *, retry_after_s: float | None = None
) -> RobotsRules:
    """Returns the rules if they allow the URL. Otherwise raises FetchError with
    `ROBOTS_UNAVAILABLE`, to be retried after `retry_after_s`, or `ROBOTS_DISALLOWED`."""
    if isinstance(rules, Unavailable):
        raise FetchError(
            Outcome.ROBOTS_UNAVAILABLE,
            rules.sentence(host_of(url)),
            url=url,
            retry_after_s=retry_after_s,
        )
    if not rules.allowed(url):
        raise FetchError(
            Outcome.ROBOTS_DISALLOWED, f"robots.txt of {host_of(url)} disallows {url}", url=url
        )
    return rules


def product_token(user_agent: str) -> str:
    """Returns the name by which robots.txt addresses us (RFC 9309 2.2.1), in lower case; "*"
    without one.

    `product_token("Mozilla/5.0 (compatible; Foobot/1.0; +https://…)") == "foobot"`; `"Foobot/1.0"`
    gives the same.
    """
    match = _COMPATIBLE.search(user_agent) or _PRODUCT.match(user_agent.strip())
    if match is None:
        return "*"
    return (match[1] if match.re is _COMPATIBLE else match[0]).lower()


def origin_of(url: str) -> str:
    """Returns scheme://host[:port] in lower case, without a default port. Raises ValueError where
    the port is not a number."""
    # The origin ends at the first slash after the scheme's two.
    end = url.find("/", 8)
    return _origin_of(url if end < 0 else url[:end])


@lru_cache(maxsize=4096)
def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    host = parts.hostname or ""
    port = parts.port
    host = f"[{host}]" if ":" in host else host
    own_port = port in (None, _DEFAULT_PORTS.get(scheme))
    return f"{scheme}://{host}" if own_port else f"{scheme}://{host}:{port}"


def robots_url(url: str) -> str:
    return f"{origin_of(url)}/robots.txt"


def rules_from(status: int, body: bytes, user_agent: str) -> RobotsRules | Unavailable:
    """Returns what a response for robots.txt means (RFC 9309 2.3.1).

    2xx is parsed; 4xx and a redirect that ends nowhere allow everything; 5xx and a missing response
    disallow everything for now, and so does 429, which asks to slow down and says nothing about
    rules. A text that makes each check of a URL slow disallows everything, too.
    """
    if 200 <= status < 300:
        text = decoded(body)
        if len(re.findall(r"\*+", text)) > WILDCARDS_MAX:
            return Unavailable(f"it has more than {WILDCARDS_MAX:,} wildcards")
        return RobotsRules(text, product_token(user_agent))
    if 300 <= status < 500 and status != 429:
        return RobotsRules("", "*")
    if status == NO_ANSWER:
        return Unavailable(body.decode(errors="replace") or "no answer")
    return Unavailable(f"the server answered {status}")


async def fetch_robots(
    fetcher: HttpFetcher,
    url: str,
    policy: FetchPolicy,
    *,
    before_hop: Callable[[str], Awaitable[None]] | None = None,
    route: ProxyRoute | None = None,
) -> tuple[int, bytes]:
    """Returns the status and the bounded body of the robots.txt that governs `url`, for
    `rules_from` and for the cache.

    Redirects may lead to any host that the guard allows (RFC 9309 2.3.1.2). Without a response the
    status is `NO_ANSWER` and the body the reason. Raises FetchError for FORBIDDEN_ADDRESS, since
    that concerns the page itself and the message names the fix; and, through a proxy, for each
    missing response, since the proxy may be at fault.
    """
    limits = replace(
        policy,
        allowed=None,
        truncate=True,
        body_max_bytes=ROBOTS_MAX_BYTES,
        wire_max_bytes=ROBOTS_MAX_BYTES,
        redirects_max=ROBOTS_REDIRECTS_MAX,
        page_timeout_s=min(policy.page_timeout_s, ROBOTS_TIMEOUT_S),
    )
    try:
        answer = await fetcher.fetch(
            robots_url(url), limits, before_hop=before_hop, extra_headers=_HEADERS, route=route
        )
    except ValueError as error:
        return NO_ANSWER, str(error).encode()
    except FetchError as error:
        if error.outcome is Outcome.FORBIDDEN_ADDRESS:
            raise
        if error.outcome is Outcome.REDIRECT_LOOP and error.status is not None:
            return error.status, b""
        if route is not None:
            raise
        return NO_ANSWER, str(error).encode()
    return answer.status, answer.body


def decoded(body: bytes) -> str:
    """Decodes at most ROBOTS_MAX_BYTES. Drops a line that the limit cuts: half of `Disallow: /x` is
    `Disallow: /`."""
    if len(body) >= ROBOTS_MAX_BYTES:
        body = body[:ROBOTS_MAX_BYTES]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    coding = "utf-16" if body.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return body.decode(coding, errors="replace").replace("\0", "")


def _merge_other_agents(text: str, token: str) -> str:
    """Returns the rules for `token`, and one group for all other names. Protego stores a rule for
    each name of its group: 8,000 names with 2,000 rules, in 170 kB, take two minutes and 2 GB."""
    text = "\n".join(text.splitlines())
    named = {_clean_agent(match[2]) for match in _AGENT.finditer(text)}
    own = max((name for name in named if name and token.startswith(name)), key=len, default="*")
    return _AGENT.sub(lambda at: f"{at[1]} {own if _clean_agent(at[2]) == own else '-'}", text)


def _clean_agent(written: str) -> str:
    name = written.strip().lower()
    return name if name == "*" else name.replace("*", "")


def _bound_delay(delay_s: float | None) -> float | None:
    if delay_s is None or not math.isfinite(delay_s) or delay_s < 0:
        return None
    return min(delay_s, CRAWL_DELAY_MAX_S)


def _is_http(url: str) -> bool:
    return url.lower().startswith(("http://", "https://")) and len(url) <= 2048
