"""What differs between a developer's machine and CI's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

# As `scraper.process.memory` does.
tunes_memory = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc's memory is tuned"
)
CI = os.environ.get("CI") == "true"
EXAMPLES = 100
EXAMPLES_LEAST = 5


def examples(number: int = EXAMPLES) -> int:
    """How many examples a property is tried with: a quarter of CI's number for developers."""
    return number if CI else max(number // 4, min(number, EXAMPLES_LEAST))


def need(there: T | None, reason: str) -> T:
    """Passes on what an optional program's or file's search has found. Without it the test is
    skipped with the reason, but fails in CI, which has everything."""
    if there is None:
        pytest.fail(reason) if CI else pytest.skip(reason)
    return there


def everyday(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """The cases of a costly test as its parameters: all in `make check`, and in `make test` the
    chosen ones."""
    listed = list(cases)
    assert not [case for case in chosen if case not in listed], "a chosen case is none"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in chosen else pytest.mark.slow,
        )
        for case in listed
    ]
