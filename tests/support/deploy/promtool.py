"""Prometheus's own checks of rules and configurations, from the Debian package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.machine import need


def promtool(*words: str, cwd: Path) -> str:
    """Runs it to its end, which must be good. Skips where it is not installed, but for CI."""
    reason = "promtool is not installed (Debian: apt install prometheus)"
    program = need(shutil.which("promtool"), reason)
    done = subprocess.run(
        [program, *words], cwd=cwd, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, f"promtool {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
