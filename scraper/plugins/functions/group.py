"""Calls of users' functions on workers: which may be called, in what groups their inputs travel,
and what a message of one group says. Pure; imports nothing of a user's.

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

from scraper.plugin import TASK_ARGUMENTS_MAX_BYTES

# Inputs in a message.
GROUP_MAX = 100
GROUP_MAX_BYTES = TASK_ARGUMENTS_MAX_BYTES
INPUT_MAX_BYTES = 500_000
# Few inputs still go out as so many messages, so that several workers share them.
GROUPS_OF_FEW = 10
# So many workers may be lost with an input, the last two while it was alone.
LOSSES_MAX = 4
FEW = 10
# Names and numbers of a group.
TEXT_MAX, WHOLE_MAX = 1000, 2**53
_NAME = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*):([A-Za-z][A-Za-z0-9_]*)"
).fullmatch


def parts_of(function: str, allowed: Collection[str]) -> tuple[str, str]:
    """Module and function that `MODULE:FUNCTION` names, if the module is one of those allowed, by
    its whole name. Raises ValueError with the fix."""
    match = _NAME(function)
    if match is None:
        raise ValueError(
            f"{function[:200]!r} names no function "
            "(fix: MODULE:FUNCTION, such as shop_checks:title)"
        )
    module, name = match.groups()
    if module not in allowed:
        listed = ", ".join(sorted(allowed)) or "no module at all"
        raise ValueError(
            f"functions of {module!r} may not be called: SCRAPER_FUNCTIONS allows {listed} "
            "(fix: add it there, for workers and callers alike)"
        )
    return module, name


@dataclass(frozen=True, slots=True)
class Options:
    """How a call's requests are made. A `site` brings its own politeness, headers and proxies; else
    `rate` and `concurrency` (of a host, for the whole fleet) and a `proxy` pool may be given.
    `input_timeout_s`: for one input."""

    site: str | None = None
    region: str | None = None
    proxy: str | None = None
    rate: str | None = None
    concurrency: int | None = None
    input_timeout_s: float | None = None

    def checked(self) -> Options:
        """Itself. Raises TypeError where a value is of another type than its field's."""
        for text in (self.site, self.region, self.proxy, self.rate):
            if text is not None:
                _text(text)
        if self.concurrency is not None:
            _whole(self.concurrency)
        if type(self.input_timeout_s) not in (int, float, NoneType):
            raise TypeError("input_timeout_s is no number")
        return self


@dataclass(frozen=True, slots=True)
class Group:
    """Some inputs of a call, as one message brings them; each with its place among all. What is
    sent again has another number."""

    call: str
    number: int
    function: str
    queue: str
    priority: int
    options: Options
    inputs: Sequence[tuple[int, Any]] = field(repr=False)

    def message(self) -> str:
        return orjson.dumps({**asdict(self), "inputs": self.inputs}).decode()

    @classmethod
    def of(cls, message: str) -> Group:
        """Raises ValueError for what no caller of ours has sent."""
        try:
            content = orjson.loads(message)
            names = {option.name for option in fields(Options)}
            options = Options(
                **{name: value for name, value in content["options"].items() if name in names}
            )
            return cls(
                UUID(_text(content["call"])).hex,
                _whole(content["number"]),
                _text(content["function"]),
                _text(content["queue"]),
                _whole(content["priority"]),
                options.checked(),
                [(_whole(index), value) for index, value in content["inputs"]],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"not a group of calls: {type(error).__name__}: {str(error)[:200]}"
            ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MAX or not value.isprintable():
        raise TypeError(f"a text of up to {TEXT_MAX} printable characters is missing")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= WHOLE_MAX:
        raise TypeError("a whole number is missing")
    return value


def group_size(inputs: int) -> int:
    """How many inputs go into a message, of so many that are known.

    >>> group_size(1000), group_size(25), group_size(1)
    (100, 3, 1)
    """
    return max(1, min(GROUP_MAX, -(-inputs // GROUPS_OF_FEW)))


def input_size(index: int, value: Any) -> int:
    """Its bytes in a message. Raises TypeError for what is no JSON value, ValueError for what is
    too large."""
    try:
        size = len(orjson.dumps(value))
    except (TypeError, RecursionError) as error:
        raise TypeError(
            f"input {index} is not JSON: {error} (fix: text, numbers, lists, mappings of them)"
        ) from None
    if size > INPUT_MAX_BYTES:
        raise ValueError(
            f"input {index} is {size} bytes of JSON, more than {INPUT_MAX_BYTES} "
            "(fix: give an URL or a key of it)"
        )
    return size


def size_after(losses: int) -> int:
    """How many inputs go into a message that workers were lost with before: in the end one, which
    is then the only one of its call that is out, so that its next loss proves something."""
    return GROUP_MAX if losses < 2 else FEW if losses < LOSSES_MAX - 1 else 1


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of an input that has no result. `type` is the exception's name, `blame` whose
    fault it is (`scraper.domain.Blame`), `outcome` what happened (`scraper.domain.Outcome`)."""

    type: str
    message: str
    blame: str
    outcome: str
    traceback: str = ""


def is_group(value: object) -> bool:
    """Whether a value from the broker may be a group of calls."""
    try:
        return isinstance(value, str) and bool(Group.of(value).inputs)
    except ValueError:
        return False
