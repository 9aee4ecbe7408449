"""Judges what happened: from an HTTP response to an outcome, and from an outcome to a verdict.
Pure: the clock and the random source are arguments.

Every retry waits in the frontier (`not_before`), never in a worker. Delays grow exponentially and
carry jitter, so that pages that failed together do not come back together.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import assert_never

from scraper.domain import Outcome, Status, Verdict
from scraper.rules.circuit_breaker import HostDown

# A page without its fields may be a challenge page, so it gets a second try.
INVALID_ATTEMPTS = 2
# The page is not at fault for a request to slow down, so patience lasts minutes, not seconds.
THROTTLED_ATTEMPTS = 8
# A host's faults have an account of their own, with this many times the page's tries.
HOST_PATIENCE = 2
# A page that fails while its host answers others well has only its own tries, soon after each
# other; a page without an answer has one less.
OWN_BASE_S = 0.5
UNANSWERED_LESS = 1
# A 403 without any other sign of a block may pass.
FORBIDDEN_ATTEMPTS = 2
FORBIDDEN_BASE_S = 10.0
# A blocked page without a higher level to go to waits at least this long.
BLOCKED_BASE_S = 60.0
# A host's troubles pass soon or never, so a longer delay would gain nothing.
HOST_DELAY_MAX_S = 30.0
# A crawl must end: a host that asks for more than this is given up after its tries.
RETRY_AFTER_MAX_S = 1800.0
# A header that asks for more than a day counts as one day.
RETRY_AFTER_HEADER_MAX_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Backoff of `base_s * 2**attempt`, at most `max_s`, spread over ±50 %."""

    attempts_max: int = 4
    base_s: float = 2.0
    max_s: float = 300.0

    def delay_s(self, attempt: int, rng: random.Random) -> float:
        """Returns the seconds to wait after try number `attempt` (0 is the first). With the
        defaults: 0 -> 1–3, 1 -> 2–6, 2 -> 4–12."""
        ceiling = min(self.base_s * 2.0 ** min(attempt, 30), self.max_s)
        return ceiling * rng.uniform(0.5, 1.5)


def judge_outcome(
    outcome: Outcome,
    attempts: int,
    policy: RetryPolicy,
    rng: random.Random,
    *,
    retry_after_s: float | None = None,
    down: HostDown | None = None,
    host_healthy: bool = False,
    forbidden: bool = False,
) -> Verdict:
    """Returns the verdict on a page with `attempts` tries before this one, charged to the account
    that this outcome is charged to: the host's for a host's fault, else the page's own.

    While its host is `down` a page waits, for free at first; while the host is healthy a page that
    fails again is at fault itself. `forbidden`: the page was refused by a 403, which may depend on
    the client and the time. `retry_after_s` is what the server asks for: it is the least delay, up
    to `RETRY_AFTER_MAX_S`, and jitter only adds to it.
    """
    match outcome:
        case Outcome.FETCHED:
            return Verdict(Status.OK, 0.0, charged=True)
        case Outcome.NOT_MODIFIED | Outcome.FRESH:
            return Verdict(Status.UNCHANGED, 0.0, charged=True)
        case Outcome.NOT_FOUND:
            return Verdict(Status.GONE, 0.0, charged=True)
        case (
            Outcome.SERVER_ERROR
            | Outcome.TIMEOUT
            | Outcome.UNREACHABLE
            | Outcome.TLS
            | Outcome.ROBOTS_UNAVAILABLE
        ):
            no_answer = outcome is Outcome.TIMEOUT
            return _host_failed(
                attempts,
                policy,
                rng,
                retry_after_s,
                down,
                host_healthy=host_healthy,
                no_answer=no_answer,
            )
        case Outcome.BLOCKED:
            # This page has no higher level left: those that it had were tried for free.
            if down is not None:
                return _wait_for_host(down, attempts, policy.attempts_max, rng)
            patient = replace(
                policy, base_s=BLOCKED_BASE_S, max_s=max(policy.max_s, BLOCKED_BASE_S)
            )
            return _retry_or_give_up(
                attempts, policy.attempts_max, Status.DEAD, patient, rng, retry_after_s
            )
        case Outcome.MALFORMED | Outcome.CRASHED | Outcome.LOGGED_OUT:
            # The first LOGGED_OUT outcomes are free (`scraper.plugins.accounts.pool`).
            return _retry_or_give_up(
                attempts, policy.attempts_max, Status.DEAD, policy, rng, retry_after_s
            )
        case Outcome.THROTTLED:
            limit = max(THROTTLED_ATTEMPTS, policy.attempts_max * HOST_PATIENCE)
            return _retry_or_give_up(attempts, limit, Status.DEAD, policy, rng, retry_after_s)
        case Outcome.NOT_EXTRACTED | Outcome.DOUBTFUL | Outcome.TOO_SLOW | Outcome.FUNCTION_FAILED:
            limit = min(INVALID_ATTEMPTS, policy.attempts_max)
            return _retry_or_give_up(attempts, limit, Status.INVALID, policy, rng, retry_after_s)
        case Outcome.REFUSED if forbidden:
            later = replace(policy, base_s=FORBIDDEN_BASE_S)
            limit = min(FORBIDDEN_ATTEMPTS, policy.attempts_max)
            return _retry_or_give_up(attempts, limit, Status.DEAD, later, rng, retry_after_s)
        case (
            Outcome.REFUSED
            | Outcome.TOO_LARGE
            | Outcome.REDIRECT_LOOP
            | Outcome.OFF_SITE
            | Outcome.FORBIDDEN_ADDRESS
            | Outcome.ROBOTS_DISALLOWED
            | Outcome.WORKER_LOST
        ):
            return Verdict(Status.DEAD, 0.0, charged=True)
        case Outcome.HOST_DOWN | Outcome.LOGIN_FAILED:
            return Verdict(Status.DEAD, 0.0, charged=False)
        case Outcome.DEFERRED | Outcome.PROXY_FAILED | Outcome.NO_PROXY | Outcome.NO_LOGIN:
            return Verdict(Status.DUE, retry_after_s or 0.0, charged=False)
        case _:
            assert_never(outcome)


def _host_failed(
    attempts: int,
    policy: RetryPolicy,
    rng: random.Random,
    retry_after_s: float | None,
    down: HostDown | None,
    *,
    host_healthy: bool,
    no_answer: bool,
) -> Verdict:
    """Returns the verdict on a host's fault: the host pays, unless it answers others well."""
    limit = policy.attempts_max * HOST_PATIENCE
    if down is not None:
        return _wait_for_host(down, attempts, limit, rng)
    if host_healthy and attempts:
        own = max(2, policy.attempts_max - UNANSWERED_LESS * no_answer)
        soon = replace(policy, base_s=min(policy.base_s, OWN_BASE_S))
        return _retry_or_give_up(attempts, own, Status.DEAD, soon, rng, retry_after_s)
    patient = replace(policy, max_s=min(policy.max_s, HOST_DELAY_MAX_S))
    return _retry_or_give_up(attempts, limit, Status.DEAD, patient, rng, retry_after_s)


def _wait_for_host(down: HostDown, attempts: int, limit: int, rng: random.Random) -> Verdict:
    if down.given_up or (down.charged and attempts + 1 >= limit):
        return Verdict(Status.DEAD, 0.0, charged=True)
    return Verdict(Status.DUE, down.rest_s + rng.uniform(0.0, 1.0), charged=down.charged)


def _retry_or_give_up(
    attempts: int,
    limit: int,
    otherwise: Status,
    policy: RetryPolicy,
    rng: random.Random,
    retry_after_s: float | None,
) -> Verdict:
    if attempts + 1 >= limit:
        return Verdict(otherwise, 0.0, charged=True)
    delay = policy.delay_s(attempts, rng)
    if retry_after_s is not None:
        delay = max(delay, min(retry_after_s, RETRY_AFTER_MAX_S) * rng.uniform(1.0, 1.1))
    return Verdict(Status.DUE, delay, charged=True)


def outcome_of_status(status: int, *, retry_after: bool, conditional: bool = False) -> Outcome:
    """Returns what an HTTP status means by itself. 2xx is FETCHED until extraction says otherwise.

    401, 403 and 451 are refusals; after 404 and 410 the page no longer exists (RFC 9110 15.5.5,
    15.5.11); 408 and 425 ask for another try; 429, and 503 with Retry-After, ask to slow down (RFC
    6585 section 4, RFC 9110 15.6.4). 304 answers a request with validators (`conditional`); for any
    other request it is useless (RFC 9110 15.4.5).
    """
    if 200 <= status < 300:
        return Outcome.FETCHED
    if status == 304:
        return Outcome.NOT_MODIFIED if conditional else Outcome.MALFORMED
    if status in (404, 410):
        return Outcome.NOT_FOUND
    if status == 429 or (status == 503 and retry_after):
        return Outcome.THROTTLED
    if status >= 500 or status in (408, 425):
        return Outcome.SERVER_ERROR
    return Outcome.REFUSED


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Returns what a Retry-After header asks for (RFC 9110, 10.2.3): seconds from `now` (aware),
    within 0..86400; None where the header is missing or invalid.

    It may be "120" or "Wed, 21 Oct 2026 07:28:00 GMT", by the clock of the server's Date header,
    where there is one. Of repeated headers the first counts.
    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    seconds = value.partition(",")[0].strip()
    if seconds.isascii() and seconds.isdigit():
        return min(float(seconds[:12]), RETRY_AFTER_HEADER_MAX_S)
    at = _read_date(value)
    if at is None:
        return None
    wait_s = (at - (_read_date(headers.get("date", "")) or now)).total_seconds()
    return min(max(wait_s, 0.0), RETRY_AFTER_HEADER_MAX_S)


def _read_date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
