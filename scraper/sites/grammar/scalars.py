"""The scalar values of a definition: durations, rates, cron, time zones, URLs, headers, priorities.
Pure.

Each function parses or checks a text, or raises `ValueError` with a fix.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_network
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from scraper.rules import urls
from scraper.rules.routing import COORDINATOR

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)").fullmatch
_RATE = re.compile(
    r"(\d+(?:\.\d+)?)\s*(?:/\s*(?:([smhd])|(sec|second|min|minute|hour|day)))?"
).fullmatch
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*(%?)").fullmatch
SLOTS_COMPARED = 60
# A site's name, whole.
SITE_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"
PRIORITIES = {"low": 2, "normal": 5, "high": 8}
# A token (RFC 9110, 5.1).
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}").fullmatch
# The client computes these headers, or they would break the request's framing or the reuse of the
# connection.
_OWN_HEADERS = {
    *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te"),
    *("trailer", "proxy-authorization", "proxy-connection", "expect", "accept-encoding"),
    *("if-none-match", "if-modified-since", "range"),
}


def parse_duration(text: str) -> float:
    """Returns a length of time in seconds: `7d`, `12h`, `30m`, `45s`, `0`. A plain number is in
    seconds."""
    match = _DURATION(text.strip().lower())
    if match is None:
        raise ValueError(
            f"{text!r} is not a length of time (fix: a number and s, m, h, d or w, as in `12h`; "
            f"0 for none)"
        )
    value = float(match[1]) * _UNITS_S[match[2] or "s"]
    if value > 10 * 365 * 86_400:
        raise ValueError(f"{text!r} is longer than ten years (fix: for example `7d`)")
    return value


def parse_rate(text: str) -> float | None:
    """Returns requests for each second: `60/m` -> 1.0, `2/s` or `2` -> 2.0, `unlimited` -> None."""
    written = text.strip().lower()
    if written == "unlimited":
        return None
    match = _RATE(written)
    if match is None:
        raise ValueError(
            f"{text!r} is not a rate (fix: requests a second, minute or hour, as in `60/m`, or "
            f"`unlimited`)"
        )
    value = float(match[1]) / _UNITS_S[(match[2] or match[3] or "s")[0]]
    if value <= 0:
        raise ValueError(
            "a rate of 0 would never fetch anything (fix: `enabled: false` switches a site off)"
        )
    if value > 10_000:
        raise ValueError(
            f"{text!r} is more than 10,000 a second (fix: write `unlimited` if you mean it)"
        )
    return value


def parse_share(text: str) -> float:
    """Returns a share from 0 to 1: `80%` or `0.8`."""
    match = _SHARE(text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 2.0
    if not 0 <= value <= 1:
        raise ValueError(
            f"{text!r} is not a share (fix: from `0%` to `100%`, or from 0 to 1, as in `80%` or "
            "`0.8`)"
        )
    return value


def parse_priority(text: str) -> int:
    """Parses a priority: `high`, `normal`, `low`, or `0` to `9`, where 9 comes first."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    if re.fullmatch("[0-9]", text):
        return int(text)
    raise ValueError(
        f"{text!r} is not a priority (fix: high, normal, low, or a number from 0, last, to 9, "
        "first)"
    )


def check_queue(name: str) -> str:
    if name == COORDINATOR:
        raise ValueError(
            f"{name!r} is the coordinator's queue, which fetches no pages (fix: another name)"
        )
    return name


@lru_cache(maxsize=1024)
def check_cron(text: str) -> str:
    """Checks a schedule of five fields, which must fire at some time (30 February never does)."""
    if len(text.split()) != 5:
        raise ValueError(
            f"{text!r} has {len(text.split())} fields, a schedule has 5 (fix: minute hour "
            f"day month weekday, as in "
            '"0 6 * * *" for every day at 6:00)'
        )
    try:
        next(CronSim(text, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ValueError(
            f'{text!r} is not a cron schedule: {str(error).lower()} (fix: as in "30 */4 * * '
            'MON-FRI")'
        ) from None
    except StopIteration:
        raise ValueError(f"{text!r} never fires (fix: check day and month)") from None
    return " ".join(text.split())


def find_shortest_gap(cron: str) -> timedelta:
    """Returns the shortest time between the schedule's next slots."""
    slots = CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC))
    last, shortest = next(slots), timedelta.max
    for _ in range(SLOTS_COMPARED):
        following = next(slots, None)
        if following is None:
            break
        last, shortest = following, min(shortest, following - last)
    return shortest


def check_timezone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(_explain_bad_zone(text)) from None
    except KeyError:
        raise ValueError(_explain_bad_zone(text)) from None
    return text


def _explain_bad_zone(text: str) -> str:
    return (
        f"{text!r} is not a time zone (fix: a name of the IANA database, as in `Europe/Berlin` or "
        "`UTC`)"
    )


def check_start_url(text: str) -> str:
    """Returns an absolute http(s) URL as it will be requested, with its whole query."""
    cleaned = urls.clean(text, rules=urls.UrlRules(keep=("*",)))
    if cleaned is not None:
        return cleaned
    if "@" in text:
        raise ValueError(
            "a URL must not contain a user name or password (fix: send an `Authorization` header "
            "from `headers`)"
        )
    raise ValueError(
        f"{text!r} is not an absolute URL (fix: start it with https://, as in `https://shop.example/`)"
    )


def check_network(text: str) -> str:
    """Returns a network or an address in its usual spelling: `10.1.0.0/16`, `10.1.2.3/32`."""
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise ValueError(f"{error} (fix: a network such as 10.1.0.0/16, or one address)") from None


def check_host(text: str) -> str:
    """Checks a host of `hosts`: a name, with a port if only that port is meant."""
    cleaned = urls.clean(f"http://{text}/") if not set("/?#@*") & set(text) else None
    if cleaned is None:
        raise ValueError(
            f"{text!r} is not a host name (fix: without https:// and path, as in "
            "`cdn.shop.example`)"
        )
    return urls.host_of(cleaned)


def check_header(name: str, value: str) -> None:
    if not _HEADER_NAME(name):
        raise ValueError(f"{name!r} is not a header name (fix: letters, digits and hyphens)")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"the header {name!r} is set by the crawler itself (fix: remove it)")
    if name.lower() == "user-agent":
        raise ValueError("the user agent has its own key (fix: move it to `user_agent:`)")
    check_header_value(name, value)


def check_header_value(name: str, value: str) -> None:
    if len(value) > 4000 or any(ord(char) < 0x20 or ord(char) > 0x7E for char in value):
        raise ValueError(
            f"the value of {name!r} must be one line of plain ASCII, at most 4,000 characters "
            "(fix: "
            "remove line breaks and accents)"
        )
