"""The profile for browser workers: Chromium works under it with its own sandbox, and what it
refuses is refused."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.deploy import seccomp

ROOT = Path(__file__).parents[4]
PROFILE = ROOT / "deploy" / "seccomp" / "chromium.json"
PAGE = "data:text/html,<p id=x></p><script>document.getElementById('x').textContent='written by ' + 'a script'</script>"

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not seccomp.NUMBERS.exists(),
    reason="x86-64 Linux with its kernel's headers",
)


def under_profile(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    argv: Sequence[str | Path] = [
        sys.executable,
        ROOT / "tests" / "support" / "deploy" / "seccomp.py",
        PROFILE,
        *command,
    ]
    env = {**os.environ, "HOME": str(folder)}
    return subprocess.run(
        argv, env=env, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that anybody may enter and write to, as the command runs as nobody: pytest's own are
    private."""
    with tempfile.TemporaryDirectory(prefix="scraper-nobody-") as made:
        Path(made).chmod(0o777)
        yield Path(made)


def test_chromium_works_with_its_own_sandbox(folder: Path, installed_chromium: str) -> None:
    """Without `--no-sandbox` it ends with an error where it can make none."""
    if under_profile("unshare", "--user", "true", folder=folder).returncode:
        pytest.skip("this kernel gives nobody a user namespace")
    options = [
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder}/profile",
    ]
    done = under_profile(installed_chromium, *options, "--dump-dom", PAGE, folder=folder)
    assert done.returncode == 0 and ">written by a script</p>" in done.stdout, done.stderr


@pytest.mark.parametrize("call", ["mount", "bpf", "ptrace", "keyctl", "setns", "pivot_root"])
def test_what_it_refuses(call: str, folder: Path) -> None:
    """Asked for with arguments that mean nothing, so that only the profile can say EPERM before the
    kernel looks at them."""
    ask = f"import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.syscall({seccomp.numbers()[call]}, -1, -1, 0, 0, 0)"
    done = under_profile("python3", "-c", f"{ask}; print(ctypes.get_errno())", folder=folder)
    free = subprocess.run(
        [sys.executable, "-c", f"{ask}; print(ctypes.get_errno())"], capture_output=True, text=True
    )
    assert done.stdout == "1\n" and free.stdout != "1\n", (done, free)


def test_a_call_that_is_not_named_is_unknown(folder: Path) -> None:
    """Such as one that a later kernel brings: programs do without it."""
    ask = "import ctypes; c = ctypes.CDLL(None, use_errno=True); c.syscall(1023, 0)"
    done = under_profile("python3", "-c", f"{ask}; print(ctypes.get_errno())", folder=folder)
    assert done.stdout == f"{errno.ENOSYS}\n"
    assert json.loads(PROFILE.read_text())["defaultAction"] == "SCMP_ACT_ERRNO"
