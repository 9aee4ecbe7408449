"""Repairs of definitions by `scraper repair`, each in a process of its own. They live in the memory
of Flower's process, and write nothing: a person applies the proposed text."""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from scraper.errors import ConfigError
from scraper.plugins.setup.child import Children
from scraper.plugins.setup.files import hash_text, read_file

AT_ONCE = 2
DEADLINE_S = 600.0
KEPT_MAX = 100


@dataclass(slots=True)
class SiteRepair:
    """One site. `seen`: the hash of the definition that was read. `proof`: what `scraper repair`
    printed. `problem`: what it could not repair, and why."""

    site: str
    by: str
    seen: str
    state: Literal["reading", "ready", "failed"] = "reading"
    problem: str = ""
    proof: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, Any]:
        """Returns what the page shows: the proof of each field, the diff and the text."""
        names = ("site", "by", "seen", "state", "problem")
        return {**{name: getattr(self, name) for name in names}, **self.proof}


class Repairs:
    """The newest repair of each site."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._repairs: dict[str, SiteRepair] = {}
        self._children = Children()

    def start(self, site: str, file: Path, by: str) -> None:
        """Starts the repair of a site. Raises `ConfigError` if it or others run."""
        with self._lock:
            running = [name for name, row in self._repairs.items() if row.state == "reading"]
            if site in running:
                raise ConfigError(f"{site} is being repaired (fix: wait for its end)")
            if len(running) >= AT_ONCE:
                raise ConfigError(f"{' and '.join(running)} are being repaired (fix: try later)")
            repair = SiteRepair(site, by, hash_text(read_file(file)))
            self._repairs.pop(site, None)
            self._repairs[site] = repair
            for name in list(self._repairs)[:-KEPT_MAX]:
                del self._repairs[name]
        threading.Thread(target=self._run, args=(repair, file), daemon=True).start()

    def find_repair(self, site: str) -> dict[str, Any] | None:
        """Returns the newest repair of a site since Flower's start."""
        repair = self._repairs.get(site)
        return None if repair is None else repair.shown

    def close(self) -> None:
        """Ends everything, when the process ends."""
        self._children.close()

    def _run(self, repair: SiteRepair, file: Path) -> None:
        # The file may have another name than its site.
        words = ["repair", "--json", "--", str(file)]
        try:
            ended = self._children.run(
                words, {}, lambda _: None, self._deadline_s, lambda: self._children.closed
            )
        except OSError as error:
            repair.problem, repair.state = f"no process could be started: {error}", "failed"
            return
        try:
            repair.proof = json.loads(ended.output)
        except ValueError:
            repair.proof = {}
        message = "\n".join(ended.errors).removeprefix("scraper: ")
        repair.problem = f"The repair was ended: {ended.stopped}." if ended.stopped else message
        # The last of what others see: they read without the lock.
        repair.state = "ready" if repair.proof else "failed"


REPAIRS = Repairs()
atexit.register(REPAIRS.close)
