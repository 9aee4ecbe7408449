"""Files for the alerts of one machine: only where the project names none, and never replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from scraper import settings
from scraper.errors import ConfigError
from scraper.plugins.alerts.prices.rules import SIZE_MAX, load_rules, parse_rules
from scraper.plugins.alerts.sending.recipients import load_recipients
from scraper.plugins.supervisor.alert_files import name_alert_files

TAB = "http://127.0.0.1:5555"


def test_a_project_without_files_gets_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path))
    named = name_alert_files(settings.load(), TAB)
    recipients, rules = tmp_path / "recipients", tmp_path / "alert-rules.yaml"
    assert named == {
        "SCRAPER_ALERTS": str(recipients),
        "SCRAPER_ALERT_RULES": str(rules),
        "SCRAPER_ALERT_TAB": TAB,
    }
    assert recipients.stat().st_mode & 0o777 == 0o600
    assert load_recipients(recipients) == [] and load_rules(rules) == []
    recipients.write_text("https://hooks.example/1\n")
    assert name_alert_files(settings.load(), TAB) == named
    assert len(load_recipients(recipients)) == 1


def test_what_the_project_names_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRAPER_ALERTS", str(tmp_path / "own"))
    monkeypatch.setenv("SCRAPER_ALERT_RULES", str(tmp_path / "rules"))
    monkeypatch.setenv("SCRAPER_ALERT_TAB", "https://crawls.example")
    assert name_alert_files(settings.load(), TAB) == {}
    assert not (tmp_path / "home").exists()


def test_remarks_alone_are_not_rules_and_a_huge_file_is_refused(tmp_path: Path) -> None:
    assert parse_rules("# later\n", tmp_path) == []
    for text in ("{}", "[]", "x", "# x\n" * SIZE_MAX):
        with pytest.raises(ConfigError):
            parse_rules(text, tmp_path)
