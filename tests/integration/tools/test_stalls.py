from __future__ import annotations

from pathlib import Path

import pytest

from tools import stalls

# A process that a test has stopped itself stays stopped, and all others go on.
TESTS = """
import subprocess, time

def test_is_stopped():
    child = subprocess.Popen(["sleep", "600"])
    child.send_signal(19)
    last, ends = time.monotonic(), time.monotonic() + 60
    while (now := time.monotonic()) - last < 0.1:
        assert now < ends
        last = now
    with open(f"/proc/{child.pid}/stat") as file:
        assert file.read().split()[2] == "T"
    child.kill()
    child.wait()

def test_fails():
    assert False
"""


@pytest.mark.parametrize(("name", "code"), [("test_is_stopped", 0), ("test_fails", 1)])
def test_the_processes_of_tests_are_stopped_for_a_moment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, code: int
) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    words = ["-p", "no:cacheprovider", "-p", "no:randomly", "-c", "/dev/null", "-q"]
    assert stalls.main(["--longest-s", "0.5", *words, "-k", name, str(file)]) == code
    assert "stopped processes " in capfd.readouterr().out
