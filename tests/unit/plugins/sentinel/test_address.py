"""URLs of Redis Sentinel: what they say, and what is refused."""

from __future__ import annotations

import pytest

from scraper import settings as settings_module
from scraper.errors import ConfigError
from scraper.infra import redaction
from scraper.plugins.sentinel.address import parse_address

FULL = "sentinel://ann:s%3Bcret%40@h1:26380,h2,[::1]:7/3?master_name=shop&sentinel_password=p%26w"


def test_a_url_is_taken_apart() -> None:
    address = parse_address(FULL)
    assert address.hosts == (("h1", 26380), ("h2", 26379), ("::1", 7))
    assert address.master_name == "shop"
    assert address.primary == {"db": 3, "username": "ann", "password": "s;cret@"}
    assert address.sentinel == {"password": "p&w"}
    login = "sentinel://ann:s%3Bcret%40@"
    assert address.broker_url == f"{login}h1:26380/3;{login}h2:26379/3;{login}[::1]:7/3"


def test_a_short_url() -> None:
    address = parse_address("sentinel://h?master_name=mymaster")
    assert (address.hosts, address.primary, address.sentinel) == ((("h", 26379),), {"db": 0}, {})
    assert address.broker_url == "sentinel://h:26379/0"


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("sentinel://:s3cret@h1:26379/0", "must name the primary"),
        ("sentinel://:s3cret@h1/0?master_name=", "must name the primary"),
        ("sentinel://:s3cret@h1:x/0?master_name=shop", "'h1:x' where HOST or HOST:PORT"),
        ("sentinel://:s3cret@h1,/0?master_name=shop", "'' where HOST or HOST:PORT"),
        ("sentinel://:s3cret@h1:99999/0?master_name=shop", "'h1:99999' where HOST"),
        ("sentinel://:s3cret@h1/zero?master_name=shop", "'zero' where the number"),
        ("sentinel://:s3cret@h1/0?master_name=shop&ssl=true", "unknown parameter ssl"),
        ("sentinel://:s3cret@h1;sentinel://:s3cret@h2/0", "all sentinels in one address"),
        ("redis+cluster://:s3cret@h1/0", "a Redis Cluster is not supported"),
        ("redis+sentinel://:s3cret@h1/0", "sentinel://"),
    ],
)
@pytest.mark.parametrize("variable", ["REDIS_URL", "BROKER_URL"])
def test_wrong_urls_are_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, fix: str
) -> None:
    monkeypatch.setenv(variable, url)
    settings_module.load.cache_clear()
    with pytest.raises(ConfigError) as caught:
        settings_module.load()
    message = str(caught.value)
    assert variable in message and fix in message and "s3cret" not in message


def test_a_plugin_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scraper.infra.services.find_service", lambda protocol: None)
    monkeypatch.setenv("REDIS_URL", FULL)
    settings_module.load.cache_clear()
    with pytest.raises(ConfigError, match="plug-in sentinel is off"):
        settings_module.load()


def test_no_password_is_shown() -> None:
    shown = redaction.mask_passwords(FULL)
    assert (
        shown == "sentinel://ann:***@h1:26380,h2,[::1]:7/3?master_name=shop&sentinel_password=***"
    )
    assert {"s;cret@", "p&w"} <= set(redaction.passwords_in(FULL))
