"""The error tree. Every error says what, where and how to fix it; a `FetchError` also says whom to
blame."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from scraper.domain import Blame, Outcome, ProxySignal

# A process exits with this code to be restarted, for example because it has grown too large.
# sysexits.h calls the code EX_TEMPFAIL.
RESTART_CODE = 75


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Returns the end of a message about a word that is not one of `words`; "" if none is close."""
    near = get_close_matches(word, list(words), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def quote_command(command: str, *words: str) -> str:
    """Returns a command with words that a user or a shop chose, quoted for a shell: what is copied
    from a message does what the message says.

    >>> quote_command("scraper new", "http://shop.example/$(reboot)")
    "scraper new 'http://shop.example/$(reboot)'"
    """
    printable = ("".join(char if char.isprintable() else "?" for char in word) for word in words)
    return f"{command} {shlex.join(printable)}"


class ScraperError(Exception):
    """An error that the user can fix. The command line prints only the message and exits with
    `exit_code`."""

    exit_code = 1


class ConfigError(ScraperError):
    """A setting in the environment is missing or wrong."""

    exit_code = 2


class DefinitionError(ScraperError):
    """A site definition is wrong. `problems` holds one line each: `file:line: key: what is wrong
    (how to fix it)`."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NotFoundError(ScraperError):
    """The named site, crawl or product does not exist."""

    exit_code = 2


class NotRunningError(ScraperError):
    """The crawl has already ended."""

    exit_code = 2


class PausedError(ScraperError):
    """A site is paused, and the command would fetch from it."""


class BusyError(ScraperError):
    """A site is being crawled in a way that conflicts with the command."""


class ServerUnavailableError(ScraperError):
    """PostgreSQL or Redis does not answer. The message names the address and what to do."""

    exit_code = 3


class ObjectsError(ScraperError):
    """A file cannot be written to, or read from, the folder or bucket where it is kept. `missing`:
    it is not there, or ends before what was asked for."""

    exit_code = 3

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class CrawlFailedError(ScraperError):
    """A crawl that was waited for did not complete."""

    exit_code = 4


class SuspectError(ScraperError):
    """A crawl's data is suspect: it differs from recent crawls' by more than its definition
    tolerates."""

    exit_code = 5


class CursorError(ScraperError):
    """The feed no longer holds the changes after a cursor, or never had them."""

    exit_code = 6


class LoginFailedError(ScraperError):
    """An account could not log in."""


class FunctionRefusedError(ScraperError):
    """A function for the workers is not allowed, cannot be imported, or is not a function."""

    exit_code = 2


class CallError(ScraperError):
    """A function on a worker gave no result for an input.

    - `index`, `input`: the input and its position
    - `type`, `message`: the exception's name and text
    - `blame`: who is at fault: page, host, proxy, parser (the function), or us
    - `outcome`: what happened, see docs/reference/outcomes.md
    - `traceback`: where in the function, as text
    """

    exit_code = 4

    def __init__(
        self,
        index: int,
        input: Any,  # noqa: A002 - what callers call it
        type: str,  # noqa: A002
        message: str,
        *,
        blame: str = Blame.PARSER.value,
        outcome: str = Outcome.FUNCTION_FAILED.value,
        traceback: str = "",
    ) -> None:
        super().__init__(f"{str(input)[:200]}: {type}: {message}")
        self.index = index
        self.input = input
        self.type = type
        self.message = message
        self.blame = blame
        self.outcome = outcome
        self.traceback = traceback


class CallsFailedError(ScraperError):
    """Some of the calls that were waited for failed."""

    exit_code = 4


class CallTimeoutError(ScraperError, TimeoutError):
    """The calls did not end within the time limit of their caller."""

    exit_code = 4


def without_backticks(text: str) -> str:
    """Returns text of a shop for a message. Messages show commands that can be typed between
    backticks, and a shop must not add its own."""
    return text.replace("`", "'")


class FetchError(Exception):
    """A page could not be fetched: the only error that `scraper.http.fetcher` raises.

    `outcome` says what happened, `retry_after_s` is the delay that the server asked for,
    `status` the HTTP status if there was one, `url` the hop that failed, `signal` what is certain
    about the proxy that was used, and `sign` what a block was recognised by.
    """

    def __init__(
        self,
        outcome: Outcome,
        message: str,
        *,
        url: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
        signal: ProxySignal | None = None,
        sign: str = "",
    ) -> None:
        super().__init__(without_backticks(message))
        self.outcome = outcome
        self.url = url
        self.status = status
        self.retry_after_s = retry_after_s
        self.signal = signal
        self.sign = sign

    @property
    def blame(self) -> Blame:
        return self.outcome.blame


class DeferredError(Exception):
    """The page gets no permit within the batch's horizon. It goes back untried, due in `delay_s`
    seconds."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(f"deferred for {delay_s:.1f} s")
        self.delay_s = delay_s


class NoProxyError(DeferredError):
    """No proxy of the pool that the site asks for is free for the host. The page waits; it is never
    fetched directly.

    `blocked`: all working proxies rest because the host has blocked them.
    """

    def __init__(self, reason: str, delay_s: float, *, blocked: bool = False) -> None:
        super().__init__(delay_s)
        self.args = (reason,)
        self.reason = reason
        self.blocked = blocked


class NoLoginError(DeferredError):
    """No account that the site asks for is logged in at the moment. The page waits; it is never
    fetched without an account."""

    def __init__(self, reason: str, delay_s: float) -> None:
        super().__init__(delay_s)
        self.args = (reason,)
        self.reason = reason
