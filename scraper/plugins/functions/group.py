"""Calls of users' functions on workers: which functions may be called, how inputs are grouped, and
the message of a group. Pure; imports no user's module.

    {"call": "…", "number": 3, "function": "shop_checks:title", "queue": "datacenter",
     "priority": 10, "options": {…}, "inputs": [[300, "https://…"], …]}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, fields
from types import NoneType
from typing import Any
from uuid import UUID

import orjson

from scraper.domain import Kind
from scraper.errors import FunctionRefusedError
from scraper.plugin import TASK_ARGUMENTS_MAX_BYTES
from scraper.rules.routing import COORDINATOR, page_priority
from scraper.sites.grammar.scalars import parse_priority

# Inputs in a message.
GROUP_MAX = 100
GROUP_MAX_BYTES = TASK_ARGUMENTS_MAX_BYTES
INPUT_MAX_BYTES = 500_000
# Few inputs are split into this many messages, so that several workers share them.
GROUPS_OF_FEW = 10
# An input is given up after this many lost workers; it was alone with the last two.
LOSSES_MAX = 4
FEW = 10
# The limits of texts and numbers in a group.
TEXT_MAX, WHOLE_MAX = 1000, 2**53
_NAME = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*):([A-Za-z][A-Za-z0-9_]*)"
).fullmatch


def parts_of(function: str, allowed: Collection[str]) -> tuple[str, str]:
    """Splits `MODULE:FUNCTION` into module and function. Raises ValueError, with the fix, unless
    the module's whole name is allowed."""
    match = _NAME(function)
    if match is None:
        raise ValueError(
            f"{function[:200]!r} does not name a function "
            "(fix: MODULE:FUNCTION, such as shop_checks:title)"
        )
    module, name = match.groups()
    if module not in allowed:
        listed = ", ".join(sorted(allowed)) or "no module"
        raise ValueError(
            f"functions of {module!r} may not be called: SCRAPER_FUNCTIONS allows {listed} "
            "(fix: add it there, for workers and callers)"
        )
    return module, name


def check_call(function: str, allowed: Collection[str], queue: str, priority: str) -> int:
    """Returns the number of the priority. Raises `FunctionRefusedError` with the fix."""
    try:
        parts_of(function, allowed)
        if queue == COORDINATOR:
            raise ValueError(f"{queue!r} is the coordinators' own queue (fix: another one)")
        return page_priority(parse_priority(priority), Kind.PRODUCT)
    except ValueError as error:
        raise FunctionRefusedError(str(error)) from None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a call's requests are made. A `site` has its own politeness, headers and proxies; without
    one, `rate` and `concurrency` (per host, for the whole fleet) and a `proxy` pool may be given.
    `input_timeout_s` is the limit for one input."""

    site: str | None = None
    region: str | None = None
    proxy: str | None = None
    rate: str | None = None
    concurrency: int | None = None
    input_timeout_s: float | None = None

    def checked(self) -> CallOptions:
        """Returns itself. Raises TypeError if a value's type differs from its field's."""
        for text in (self.site, self.region, self.proxy, self.rate):
            if text is not None:
                _check_text(text)
        if self.concurrency is not None:
            _check_number(self.concurrency)
        if type(self.input_timeout_s) not in (int, float, NoneType):
            raise TypeError("input_timeout_s is not a number")
        return self


@dataclass(frozen=True, slots=True)
class Group:
    """Some inputs of a call, as one message carries them, each with its index in the call. A group
    that is sent again has another number."""

    call: str
    number: int
    function: str
    queue: str
    priority: int
    options: CallOptions
    inputs: Sequence[tuple[int, Any]] = field(repr=False)

    def message(self) -> str:
        return orjson.dumps({**asdict(self), "inputs": self.inputs}).decode()

    @classmethod
    def parse(cls, message: str) -> Group:
        """Parses a message. Raises ValueError unless a `Client` could have sent it."""
        try:
            content = orjson.loads(message)
            names = {option.name for option in fields(CallOptions)}
            options = CallOptions(
                **{name: value for name, value in content["options"].items() if name in names}
            )
            return cls(
                UUID(_check_text(content["call"])).hex,
                _check_number(content["number"]),
                _check_text(content["function"]),
                _check_text(content["queue"]),
                _check_number(content["priority"]),
                options.checked(),
                [(_check_number(index), value) for index, value in content["inputs"]],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"not a group of calls: {type(error).__name__}: {str(error)[:200]}"
            ) from None


def _check_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MAX or not value.isprintable():
        raise TypeError(f"a text of up to {TEXT_MAX} printable characters is missing")
    return value


def _check_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= WHOLE_MAX:
        raise TypeError("a whole number is missing")
    return value


def group_size(inputs: int) -> int:
    """Returns the number of inputs in a message if a call has at least `inputs`.

    >>> group_size(1000), group_size(25), group_size(1)
    (100, 3, 1)
    """
    return max(1, min(GROUP_MAX, -(-inputs // GROUPS_OF_FEW)))


def input_size(index: int, value: Any) -> int:
    """Returns an input's bytes in a message. Raises TypeError unless it is a JSON value, and
    ValueError if it is too large."""
    try:
        size = len(orjson.dumps(value))
    except (TypeError, RecursionError) as error:
        raise TypeError(
            f"input {index} is not JSON: {error} (fix: text, numbers, lists, mappings of them)"
        ) from None
    if size > INPUT_MAX_BYTES:
        raise ValueError(
            f"input {index} is {size} bytes of JSON, more than {INPUT_MAX_BYTES} "
            "(fix: pass its URL or a key)"
        )
    return size


def size_after(losses: int) -> int:
    """Returns the number of inputs in a message after this many lost workers. In the end it is one,
    and no other such input of the call is sent at the same time, so that the next loss proves that
    this input is the cause."""
    return GROUP_MAX if losses < 2 else FEW if losses < LOSSES_MAX - 1 else 1


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an input. `type` is the exception's name; `blame` and `outcome` are values of
    `scraper.domain.Blame` and `scraper.domain.Outcome`."""

    type: str
    message: str
    blame: str
    outcome: str
    traceback: str = ""


def is_group(value: object) -> bool:
    """Returns whether a value from the broker is a valid group of calls."""
    try:
        return isinstance(value, str) and bool(Group.parse(value).inputs)
    except ValueError:
        return False
