"""systemd takes the units as they are, they are closed as far as they can be, and what they start
and read exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import need

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "deploy" / "systemd"
INSTALLED = "/usr/local/scraper"
INSTANCES = ["scraper-worker@residential.service", "scraper-worker@browser.service"]
NAMES = [
    *(
        path.name
        for path in sorted(UNITS.glob("scraper*.*"))
        if path.is_file() and "@." not in path.name
    ),
    *INSTANCES,
]
# of 10; `systemd-analyze security` counts 0.5 for the network, which a worker needs
EXPOSURE_MAX = 1.5


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """As installed, but for the checkout's place."""
    need(shutil.which("systemd-analyze"), "systemd is not installed (Debian: apt install systemd)")
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for path in [each for each in folder.rglob("*") if each.is_file()]:
        path.write_text(path.read_text().replace(INSTALLED, str(ROOT)))
    for name in INSTANCES:
        shutil.copy(folder / "scraper-worker@.service", folder / name)
    return folder


def analyze(units: Path, *words: str) -> str:
    done = subprocess.run(
        ["systemd-analyze", *words],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_systemd_takes_them(units: Path) -> None:
    """Without a word: a key that it does not know is only a warning to it."""
    assert analyze(units, "verify", "--man=no", *NAMES) == ""


def test_a_mistake_would_be_seen(units: Path) -> None:
    with (units / "scraper-.service.d" / "common.conf").open("a") as file:
        file.write("ProtectEverything=yes\n")
    assert "Unknown key" in analyze(
        units, "verify", "--man=no", "scraper-worker@residential.service"
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".service")])
def test_they_are_closed(units: Path, name: str) -> None:
    said = analyze(units, "security", "--offline=true", "--no-pager", name)
    found = re.search(r"exposure level for \S+: ([\d.]+)", said)
    assert found and float(found[1]) <= EXPOSURE_MAX, said


def lines(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            yield key, value


@pytest.mark.parametrize("path", sorted(UNITS.rglob("*.*")), ids=lambda path: path.name)
def test_what_they_name_exists(path: Path) -> None:
    if path.is_dir():
        return
    shared = [
        value
        for key, value in lines(UNITS / "scraper-.service.d" / "common.conf")
        if key == "LoadCredential"
    ]
    given = {value.partition(":")[0] for value in shared}
    given |= {value.partition(":")[0] for key, value in lines(path) if key == "LoadCredential"}
    for key, value in lines(path):
        if key == "WantedBy" and "scraper" in value:
            assert (UNITS / value).exists()
        if key == "Environment":
            assert {name.partition("/")[2] for name in re.findall(r"%d/\S+", value)} <= given, value


@pytest.mark.parametrize(
    ("instance", "queue"),
    [("residential", "residential"), ("residential.eu:2", "residential.eu"), ("a-b", "a-b")],
)
def test_an_instance_is_a_queue(instance: str, queue: str, tmp_path: Path) -> None:
    """The line as systemd makes it of the template, with a celery that says what it was asked for."""
    celery = tmp_path / ".venv" / "bin" / "celery"
    celery.parent.mkdir(parents=True)
    celery.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    celery.chmod(0o755)
    line = dict(lines(UNITS / "scraper-worker@.service"))["ExecStart"]
    line = line.replace("%%", "\0").replace("%i", instance).replace("\0", "%").replace("$$", "$")
    script = line.removeprefix("/bin/sh -c '").removesuffix("'").replace(INSTALLED, str(tmp_path))
    said = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert said == ["-A", "scraper", "worker", "-Q", queue, "-n", f"{instance}@%h"]
