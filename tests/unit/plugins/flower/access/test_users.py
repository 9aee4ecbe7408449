"""The users of Flower: what is stored of them, who is let in, and the role of each request."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from scraper.errors import ConfigError
from scraper.plugins.flower import actions
from scraper.plugins.flower.access import roles, users
from scraper.plugins.flower.access.roles import needed_role
from scraper.plugins.flower.access.users import (
    FAILURES_MAX,
    FAILURES_S,
    Logins,
    Role,
    User,
    change_users,
    load_users,
    may,
    users_file,
    with_password,
    with_token,
)


def basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def token(tmp_path: Path) -> str:
    """The token of a script; anna has a password."""
    script, token = with_token("ci", "read")
    with change_users(tmp_path) as stored:
        stored["anna"] = with_password("anna", "operate", "grün & gut")
        stored["ci"] = script
    return token


def name_of(user: User | None) -> str | None:
    return user and user.name


def test_a_file_holds_hashes_and_is_the_owners(tmp_path: Path, token: str) -> None:
    file = users_file(tmp_path)
    text = file.read_text()
    assert "gut" not in text and token not in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".users*"))
    stored = load_users(file)
    assert [(user.role, user.has_token) for user in stored.values()] == [
        ("operate", False),
        ("read", True),
    ]
    with pytest.raises(ConfigError, match="at least 8"):
        with_password("bob", "read", "short")


def test_a_login_is_a_name_with_its_own_password_or_a_token(tmp_path: Path, token: str) -> None:
    logins = Logins(users_file(tmp_path))
    for _ in range(2):
        assert name_of(logins.find_user(basic("anna", "grün & gut"))) == "anna"
        assert name_of(logins.find_user(f"Bearer {token}")) == "ci"
    stored = load_users(users_file(tmp_path))
    for wrong in (
        "",
        "Basic",
        "Basic ???",
        basic("anna", "grün & gu"),
        basic("anna", ""),
        basic("bob", "grün & gut"),
        basic("ci", token),
        basic("ci", ""),
        basic("", ""),
        "Basic " + b64encode(b"\xff:\xff").decode(),
        f"Bearer {token}x",
        f"Bearer {stored['ci'].digest}",
        f"Bearer {stored['anna'].digest}",
        "Bearer grün",
        f"Digest {token}",
    ):
        assert logins.find_user(wrong) is None, wrong


def test_a_removed_user_and_an_old_password_are_refused_at_once(tmp_path: Path, token: str) -> None:
    logins, old = Logins(users_file(tmp_path)), basic("anna", "grün & gut")
    assert logins.find_user(old) and logins.find_user(f"Bearer {token}")
    with change_users(tmp_path) as stored:
        stored["anna"] = with_password("anna", "read", "another one")
        del stored["ci"]
    assert not logins.find_user(old) and not logins.find_user(f"Bearer {token}")
    found = logins.find_user(basic("anna", "another one"))
    assert found is not None and found.role == "read"


@pytest.mark.parametrize(
    "text", ["no", "[]", '{"a": 1}', '{"a": {"role": "all", "salt": "", "digest": "00"}}']
)
def test_a_file_of_another_form_lets_no_user_in(tmp_path: Path, token: str, text: str) -> None:
    logins = Logins(users_file(tmp_path))
    assert logins.find_user(f"Bearer {token}")
    users_file(tmp_path).write_text(text)
    for _ in range(2):
        with pytest.raises(ConfigError):
            logins.find_user(f"Bearer {token}")


def test_guesses_are_limited_and_known_logins_go_on(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, hashed = [0.0], []
    logins = Logins(users_file(tmp_path), lambda: at[0])
    good = basic("anna", "grün & gut")
    assert logins.find_user(good)
    hash_password = users.hash_password

    def count(password: str, salt: str) -> str:
        hashed.append(password)
        return hash_password(password, salt)

    monkeypatch.setattr(users, "hash_password", count)
    for number in range(FAILURES_MAX + 5):
        assert not logins.find_user(basic("anna" if number % 2 else "bob", f"guess {number}"))
    # An unknown name costs as much as a known one.
    assert len(hashed) == FAILURES_MAX
    assert logins.find_user(good) and logins.find_user(f"Bearer {token}")
    at[0] += FAILURES_S
    assert not logins.find_user(basic("anna", "guess"))
    assert len(hashed) == FAILURES_MAX + 1


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/", "read"),
        ("GET", "/crawls/api/articles", "read"),
        ("GET", "/workers", "read"),
        ("POST", "/api/crawls/7/accept", "operate"),
        ("POST", "/api/sites/shop/pause", "operate"),
        ("POST", "/crawls/api/articles/confirm", "operate"),
        ("GET", "/crawls/setup", "edit"),
        ("GET", "/crawls/api/setup", "edit"),
        ("POST", "/crawls/api/setup/save", "edit"),
        ("POST", "/crawls/api/setup/check", "edit"),
        ("POST", "/api/worker/shutdown/w", "edit"),
        ("POST", "/api/worker/shutdown/x/api/crawls/1/stop", "edit"),
        ("POST", "/api/task/send-task/scraper.tasks.tick", "edit"),
        ("POST", "/api/crawls/7/accept/", "edit"),
        ("DELETE", "/crawls", "edit"),
    ],
)
def test_each_request_needs_a_role(method: str, path: str, role: Role) -> None:
    assert needed_role(method, path) == role


def test_every_button_is_for_operators() -> None:
    assert (tuple(actions.ACTIONS), tuple(actions.OF_SITES)) == (roles.OF_CRAWLS, roles.OF_SITES)


def test_a_role_includes_those_before_it() -> None:
    assert may("edit", "read") and may("operate", "operate") and not may("read", "operate")
