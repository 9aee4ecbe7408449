"""Files, pipes and devices as the destinations of an export."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from scraper.cli.data.output import open_destination
from scraper.errors import ScraperError


def write(where: Path, text: bytes) -> None:
    with open_destination(str(where)) as file:
        file.write(text)


def write_half(where: Path) -> None:
    with open_destination(str(where)) as file:
        file.write(b"ha")
        raise RuntimeError


def test_a_pipe_and_a_device_are_written_to_and_stay(tmp_path: Path) -> None:
    """As root, a renamed file would take the place of /dev/null."""
    pipe, device = tmp_path / "pipe", tmp_path / "null"
    os.mkfifo(pipe)
    device.symlink_to(os.devnull)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe, b"one")
    reader.join()
    write(device, b"two")
    assert read == [b"one"] and stat.S_ISFIFO(pipe.stat().st_mode)
    assert device.is_symlink() and stat.S_ISCHR(device.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["null", "pipe"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "today.csv"
    write(file, b"one")
    with pytest.raises(RuntimeError):
        write_half(file)
    assert file.read_bytes() == b"one" and list(tmp_path.iterdir()) == [file]
    with pytest.raises(ScraperError, match="cannot write"):
        write(tmp_path, b"one")


def test_a_link_stays_and_so_does_the_mode(tmp_path: Path) -> None:
    link, file = tmp_path / "latest.csv", tmp_path / "data" / "x.csv"
    file.parent.mkdir()
    link.symlink_to(file)
    write(link, b"one")
    file.chmod(0o600)
    write(link, b"two")
    assert link.is_symlink() and file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
