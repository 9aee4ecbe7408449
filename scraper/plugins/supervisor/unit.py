"""The systemd unit that runs `scraper start` for a project, as a service of the user's own."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from scraper.errors import ConfigError
from scraper.plugins.supervisor.supervisor import LATE_S
from scraper.settings import Settings

TEXT = """\
# Written by `scraper start --service`.

[Unit]
Description=scraper in {folder}
StartLimitIntervalSec=0

[Service]
# It notifies systemd each second. One that is silent for two minutes is started again.
Type=notify
WatchdogSec=2min
TimeoutStartSec=5min
WorkingDirectory={folder}
ExecStart={command}
# Only the command itself gets the signal. It ends all others, and the servers last.
KillMode=mixed
TimeoutStopSec={stop_s:.0f}
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""
SERVERS_STOP_S = 60.0


def units_folder() -> Path:
    """Returns where systemd looks for a user's own units."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "systemd" / "user"


def unit_text(folder: Path, options: list[str], settings: Settings) -> str:
    """Returns the unit for a project's folder, with `scraper start`'s own options."""
    words = [sys.executable, "-m", "scraper", "start", *options]
    return TEXT.format(
        folder=str(folder).replace("%", "%%"),
        command=" ".join(map(_quote_word, words)),
        stop_s=settings.stop_s + LATE_S + SERVERS_STOP_S,
    )


def write_unit(folder: Path, options: list[str], settings: Settings) -> Path:
    """Writes the unit. Raises `ConfigError` if another project has one of its name."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", folder.name) or "root"
    path = units_folder() / f"scraper-{name}.service"
    text = unit_text(folder, options, settings)
    place = next(line for line in text.splitlines() if line.startswith("WorkingDirectory="))
    try:
        if path.exists() and place not in path.read_text("utf-8").splitlines():
            raise ConfigError(
                f"{path} is another project's (fix: rename this folder, or remove that file)"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return path


def _quote_word(word: str) -> str:
    """Quotes a word of a command line for systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[^\w@%+=:,./-]", escaped) else escaped
