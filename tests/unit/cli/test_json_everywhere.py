"""Each command that prints what a program might read has `--json`, for its errors too."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.errors import ConfigError
from tests.support.all_commands import WITHOUT, commands


def test_each_command_has_json_or_a_reason() -> None:
    without = {
        words
        for words, command in commands(main, click.Context(main, info_name="scraper"))
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == set(WITHOUT)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sites", "check", "no-such-site"), "no-such-site"),
        (("products", "shop", "--limit", "-3"), "-3 is not in the range"),
        (("status", "--no-such-option"), "No such option"),
        (("crwal",), "did you mean 'crawl'?"),
    ],
)
def test_an_error_is_json_too(words: tuple[str, ...], says: str) -> None:
    plain = CliRunner().invoke(main, [*words])
    result = CliRunner().invoke(main, [*words, "--json"])
    error = json.loads(result.stderr)
    assert says in error["error"] and result.stdout == ""
    assert error["exit_code"] == result.exit_code == plain.exit_code == 2
    assert says in plain.stderr and not plain.stderr.startswith("{")


def test_what_a_shop_sent_drives_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def broken(as_json: bool) -> None:
        raise ConfigError('a\x1b[31m "b"\u202e\nc')

    monkeypatch.setattr(type(main), "get_command", lambda *_: broken)
    result = CliRunner().invoke(main, ["status", "--json"])
    assert json.loads(result.stderr) == {"error": 'a?[31m "b"?\nc', "exit_code": 2}
    assert CliRunner().invoke(main, ["status"]).stderr == 'scraper: a?[31m "b"?\nc\n'


def test_an_interrupted_command_says_so_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(main), "get_command", lambda *_: interrupted)
    result = CliRunner().invoke(main, ["status"])
    assert (result.exit_code, result.stderr) == (130, "\nAborted!\n")
