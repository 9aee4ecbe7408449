"""The password that Flower makes for itself is whole, or is none."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from scraper.errors import ConfigError
from scraper.plugins.flower.login import read_login
from scraper.settings import Settings


def test_a_password_is_made_once_and_a_full_disk_leaves_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Settings(home=tmp_path / "home")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            read_login(own)
    assert list(own.home_dir.iterdir()) == []
    login = read_login(own)
    assert len(login.password) >= 20 and read_login(own) == login
    assert [file.stat().st_mode & 0o777 for file in own.home_dir.iterdir()] == [0o600]


def test_an_empty_password_lets_no_one_in(tmp_path: Path) -> None:
    (tmp_path / "flower-password").write_text("\n")
    with pytest.raises(ConfigError, match="flower-password: no password"):
        read_login(Settings(home=tmp_path))
