"""`scraper settings` shows each value whole, but no secret of any plug-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.cli.setup import settings_table
from scraper.errors import ConfigError
from scraper.plugin import Hooks
from scraper.settings import Settings


class OwnHooks(Hooks):
    def secret_values(self, settings: Settings) -> Iterator[str]:
        yield ""
        yield "t0ken"
        raise ConfigError("the rest of the secrets cannot be read")


def test_it_shows_whole_values_and_hides_the_secrets_of_any_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings_table, "plugin_hooks", lambda: {"own": OwnHooks()})
    url = "postgresql+psycopg://database.example:5432/scraper"
    given = {
        "DATABASE_URL": (url, url),
        "SCRAPER_FLOWER_DOCS": ("t0ken", "(hidden)"),
        "SCRAPER_FLOWER_HOSTS": ("", ""),
        "SCRAPER_FLOWER_PASSWORD": ("s3cret", "(hidden)"),
        "SCRAPER_SECRET_KEY": ("s3cret,0ld", "(hidden)"),
    }
    for name, (value, _) in given.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(main, ["settings", "--changed"], catch_exceptions=False)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {name: value for _, value, name in rows if name in given} == {
        name: shown for name, (_, shown) in given.items()
    }


def test_it_names_variables_that_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCRAPER_TEST_HOME", raising=False)
    for name in ("SCRAPER_ATTEMPT_MAX", "SCRAPER_SECRET_KEY_FIL", "SCRAPER_PLUGINS_OFF"):
        monkeypatch.setenv(name, "")
    done = CliRunner().invoke(main, ["settings", "--json"], catch_exceptions=False)
    assert done.stderr.splitlines() == [
        "SCRAPER_ATTEMPT_MAX is not a setting; did you mean 'SCRAPER_ATTEMPTS_MAX'?",
        "SCRAPER_SECRET_KEY_FIL is not a setting; did you mean 'SCRAPER_SECRET_KEY'?",
    ]
