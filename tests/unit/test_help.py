"""What `scraper --help` shows fits on a line, and begins with what a new user does first."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from scraper.cli.main import all_commands, help_of, main

SUMMARY_MAX_CHARS = 60


@pytest.mark.parametrize("command", sorted(all_commands()))
def test_a_summary_is_short_and_shown_whole(command: str) -> None:
    summary = help_of(command)
    assert len(summary) <= SUMMARY_MAX_CHARS
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    first = re.escape(summary.partition(". ")[0].rstrip("."))
    assert re.search(rf"^ +{command} +{first}\.?$", shown, re.MULTILINE)


def test_the_first_steps_are_new_try_and_crawl() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    steps = re.findall(r"^ +(?:First steps: +)?scraper (\w+)", shown, re.MULTILINE)
    assert steps[:4] == ["new", "try", "crawl", "start"]
