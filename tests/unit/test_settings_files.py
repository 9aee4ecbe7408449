"""Settings that come from files, as secrets do in containers and from systemd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scraper import settings as settings_module
from scraper.errors import ConfigError
from scraper.settings import Settings

Give = Callable[[str, str], Path]


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Give:
    """Puts a text into a file, and names it for a setting."""

    def give(name: str, text: str) -> Path:
        path = tmp_path / name.lower()
        path.write_text(text)
        monkeypatch.setenv(f"{name}_FILE", str(path))
        return path

    return give


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_any_setting_may_come_from_a_file(give: Give, end: str) -> None:
    give("DATABASE_URL", "postgresql://ann:s3cret%2F@db/shop" + end)
    give("SCRAPER_FLOWER_PASSWORD", " a b " + end)
    give("SCRAPER_LEASE_S", "30" + end)
    settings = settings_module.load()
    assert settings.database_url == "postgresql+psycopg://ann:s3cret%2F@db/shop"
    assert settings.flower_password == " a b " and settings.lease_s == 30


def test_what_a_program_asks_for_comes_first(give: Give) -> None:
    give("SCRAPER_LEASE_S", "30")
    assert Settings(lease_s=20).lease_s == 20


def test_an_empty_variable_next_to_a_file(give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    give("REDIS_URL", "redis://redis/0")
    assert settings_module.load().redis_url == "redis://redis/0"


def test_no_file_where_the_name_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docker-compose.yml gives it where .env has none."""
    monkeypatch.setenv("BROKER_URL_FILE", "")
    assert settings_module.load().broker_url is None


@pytest.mark.parametrize(
    "url",
    [
        "amqp://ann@one/;redis://two/0",
        "amqp://ann@one/;",
        "amqps://ann@one/;amqps://ann@two/",
        "redis://one/0;redis://two/0",
    ],
)
def test_only_the_nodes_of_a_rabbitmq_may_follow_one_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_URL", "amqp://ann@one/;amqp://ann@two:5673/")
    assert settings_module.load().broker_is_amqp
    settings_module.load.cache_clear()
    monkeypatch.setenv("BROKER_URL", url)
    with pytest.raises(ConfigError, match="must"):
        settings_module.load()


def test_both_at_once_are_refused(give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    give("REDIS_URL", "redis://:s3cret@redis/0")
    monkeypatch.setenv("REDIS_URL", "redis://:0ther@redis/0")
    with pytest.raises(ConfigError, match="REDIS_URL and REDIS_URL_FILE: one of them only"):
        settings_module.load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("http://ann:s3cret@db", "must start with postgresql"),
        ("s3cret" * 9999, "larger than"),
    ],
)
def test_errors_show_no_value(give: Give, text: str, message: str) -> None:
    give("DATABASE_URL", text)
    with pytest.raises(ConfigError, match=message) as caught:
        settings_module.load()
    assert "s3cret" not in str(caught.value) and "DATABASE_URL" in str(caught.value)


def test_a_file_that_is_not_there(give: Give) -> None:
    path = give("DATABASE_URL", "x")
    path.unlink()
    with pytest.raises(ConfigError, match=r"No such file.*\(DATABASE_URL_FILE\)"):
        settings_module.load()


@pytest.mark.parametrize(
    ("url", "moved"),
    [
        ("u:p@h1:5433,h2/db?a=b", "u:p@/db?a=b&host=h1,h2&port=5433,5432"),
        ("h1,h2:6000/db", "/db?host=h1,h2&port=5432,6000"),
        ("u:a,b@h1/db", "u:a,b@h1/db"),
        ("u@/db?host=%2Frun", "u@/db?host=%2Frun"),
    ],
)
def test_several_hosts_are_written_as_both_libraries_read_them(url: str, moved: str) -> None:
    assert settings_module.move_hosts(url) == moved


@pytest.mark.parametrize(
    ("lines", "text", "message"),
    [
        ("database_url_file = 'url'", "\n", r"url: is empty \(scraper.toml: database_url_file\)"),
        ("database_url_file = 5", "", "scraper.toml: database_url_file must be a path in quotes"),
        (
            "database_url_file = 'url'\ndatabase_url = 'postgresql://db/a'",
            "postgresql://db/b",
            "scraper.toml: database_url and database_url_file: one of them only",
        ),
    ],
)
def test_files_that_the_project_names_are_checked_too(
    lines: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scraper.toml").write_text(lines)
    Path("url").write_text(text)
    with pytest.raises(ConfigError, match=message):
        settings_module.load()
