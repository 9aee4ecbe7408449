"""The subprocess that reads slow pages, before its first page."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from scraper.registry import active_plugins


def test_plugins_are_imported_before_the_first_page_is_timed(tmp_path: Path) -> None:
    ours, other = socket.socketpair()
    imports = tmp_path / "imports"
    program = [sys.executable, "-v", "-m", "scraper.extract.subprocess"]
    with ours, imports.open("wb") as stderr:
        with other:
            process = subprocess.Popen(
                [*program, str(other.fileno())], stderr=stderr, pass_fds=[other.fileno()]
            )
        ours.settimeout(60)
        assert ours.recv(1) == b"\x00"
        lines = imports.read_text().splitlines()
    assert process.wait(60) == 0
    imported = {line.split("'")[1] for line in lines if line.startswith("import '")}
    hooks = {plugin.hooks.partition(":")[0] for plugin in active_plugins() if plugin.hooks}
    assert hooks and hooks - imported == set()
