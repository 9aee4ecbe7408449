"""`scraper init`: the guide for coding agents is short, names real commands, and replaces nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.plugins.author.commands.init import GUIDE

GUIDE_LINES_MAX = 40


def test_the_guide_is_written_and_an_own_one_is_kept(tmp_path: Path) -> None:
    first = CliRunner().invoke(main, ["init", str(tmp_path), "--json"])
    assert "AGENTS.md" in json.loads(first.stdout)["written"], first.output
    assert (tmp_path / "AGENTS.md").read_text() == GUIDE
    (tmp_path / "AGENTS.md").write_text("mine")
    again = CliRunner().invoke(main, ["init", str(tmp_path), "--json"])
    assert json.loads(again.stdout)["written"] == []
    assert (tmp_path / "AGENTS.md").read_text() == "mine"


def test_the_guide_names_commands_and_options_that_exist() -> None:
    assert len(GUIDE.splitlines()) <= GUIDE_LINES_MAX
    typed = re.findall(r"`scraper ([^`]+)`", GUIDE)
    assert len(typed) >= 10
    for line in typed:
        command: click.Command = main
        words = line.split()
        while isinstance(command, click.Group) and words:
            child = command.get_command(click.Context(command), words.pop(0))
            assert child is not None, line
            command = child
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, line
