"""Files that hold secrets are made once, whole, and for their owner alone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from scraper.infra.secret_files import make_secret


@pytest.mark.parametrize("has_links", [True, False])
def test_a_secret_is_made_once_and_for_its_owner(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "home" / "password"
    make_secret(path, "first")
    make_secret(path, "second")
    assert path.read_text() == "first\n" and path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_no_part_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        make_secret(tmp_path / "password", "first")
    assert list(tmp_path.iterdir()) == []
