"""The table of outcomes in docs/architecture.md, made from the enum and from `judge` itself.

`python -m tests.outcome_table` writes it into the page; a test compares.
"""

from __future__ import annotations

import random
from pathlib import Path

from scraper.domain import Blame, Outcome
from scraper.rules.verdict import RetryPolicy, judge

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
BEGIN, END = "<!-- outcomes: python -m tests.outcome_table -->\n", "<!-- /outcomes -->"


def follows(outcome: Outcome) -> str:
    """What is done about it with the default number of attempts, the host answering others."""
    tries = 0
    while True:
        verdict = judge(outcome, tries, RetryPolicy(), random.Random(0))
        if verdict.status.final:
            break
        if not verdict.charged:
            return "again, free"
        tries += 1
    end = f"`{verdict.status}`" if verdict.charged else f"`{verdict.status}`, not charged"
    return f"again, {tries + 1} tries in all, then {end}" if tries else end


def table() -> str:
    rows = [
        f"| `{outcome}` | {outcome.phrase} | {_blame(outcome.blame)} | {follows(outcome)} |"
        for outcome in Outcome
    ]
    head = ["| outcome | what happened | whose fault | what follows |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _blame(blame: Blame) -> str:
    return "" if blame is Blame.NOBODY else str(blame)


def split(page: str) -> tuple[str, str, str]:
    """What stands before the table, the table, and what stands behind it."""
    before, rest = page.split(BEGIN)
    between, after = rest.split(END)
    return before + BEGIN, between, END + after


if __name__ == "__main__":
    before, _, after = split(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(before + table() + after, encoding="utf-8")
