"""Work on a page in stages, so that the same stage of many pages can be done in a row
(`scraper.worker.row_reader`).

A generator yields where other pages may go on; what it returns is the work's result.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Stages: TypeAlias = Generator[None, None, T]


def whole(stages: Stages[T]) -> T:
    """All of them at once: the result, or what one of them raises."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
