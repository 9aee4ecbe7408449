"""Signs of life: a file's time, and what systemd hears."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scraper.process.heartbeat import Heartbeat

PROBE = """find "$SCRAPER_HEARTBEAT" -newermt '-30 seconds' | grep -q ."""


def well(path: Path) -> bool:
    return (
        subprocess.run(
            ["sh", "-c", PROBE], env={**os.environ, "SCRAPER_HEARTBEAT": str(path)}, check=False
        ).returncode
        == 0
    )


def test_the_file_is_new_while_it_beats(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "alive"
    assert not well(path)
    Heartbeat(path, None).beat()
    assert well(path)
    os.utime(path, (1, 1))
    assert not well(path)
    Heartbeat(path, None).beat()
    assert well(path)


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, str]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard,
    ):
        name = f"{folder}/notify" if request.param == "path" else f"@scraper-tests-{os.getpid()}"
        heard.bind(name.replace("@", "\0", 1))
        heard.settimeout(5)
        yield heard, name


def test_systemd_is_notified(systemd: tuple[socket.socket, str]) -> None:
    heard, name = systemd
    Heartbeat(None, name).beat()
    assert heard.recv(100).splitlines() == [b"READY=1", b"WATCHDOG=1"]


def test_without_a_file_and_a_socket_it_does_nothing() -> None:
    with capture_logs() as logs:
        Heartbeat(None, None).beat()
    assert logs == []


def test_a_muted_child_is_silent(tmp_path: Path) -> None:
    heart = Heartbeat(tmp_path / "alive", None)
    heart.mute()
    heart.beat()
    assert not (tmp_path / "alive").exists()


def test_a_failed_notification_is_logged_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    heart = Heartbeat(tmp_path / "file" / "alive", None)
    with capture_logs() as logs:
        heart.beat()
        heart.beat()
    assert [line["event"] for line in logs] == ["cannot write heartbeat"]
