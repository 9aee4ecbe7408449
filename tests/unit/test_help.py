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


def first_steps() -> list[str]:
    shown = CliRunner().invoke(main, ["--help"]).output
    return re.findall(r"^ +scraper (\w+)", shown, re.MULTILINE)


def test_the_first_steps_are_new_try_and_crawl() -> None:
    assert first_steps() == ["new", "try", "up", "crawl", "start"]


def test_the_first_steps_leave_out_commands_of_plugins_that_are_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = {name: row for name, row in all_commands().items() if name not in ("new", "up")}
    monkeypatch.setattr("scraper.cli.main.all_commands", lambda: others)
    assert first_steps() == ["try", "crawl", "start"]
