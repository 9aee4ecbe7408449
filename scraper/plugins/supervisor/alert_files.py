"""Files for the alerts of this machine, so that the Crawls tab can add recipients and rules without
a setting: `recipients` and `alert-rules.yaml` in SCRAPER_HOME, where the project names none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from scraper.settings import Settings

# The settings of the plug-in `alerts`, to the names of their files.
FILES = {"alerts": "recipients", "alert_rules": "alert-rules.yaml"}


def name_alert_files(settings: Settings, tab: str) -> Mapping[str, str]:
    """Returns variables for the processes: the files, which it creates, and the address of the tab
    for links in mail. Leaves out what the project sets, and all without the plug-in."""
    variables = {}
    for name, file_name in FILES.items():
        if getattr(settings, name, "") is None:
            path = settings.home_dir / file_name
            # Addresses of recipients are secrets.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            variables[f"SCRAPER_{name.upper()}"] = str(path.absolute())
    if getattr(settings, "alert_tab", None) == "":
        variables["SCRAPER_ALERT_TAB"] = tab
    return variables
