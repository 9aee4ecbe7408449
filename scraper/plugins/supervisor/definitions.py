"""The queues that the definitions of the sites folder name."""

from __future__ import annotations

from pathlib import Path

from scraper.errors import DefinitionError
from scraper.sites import loader

# New sites go there unless they say otherwise, so a worker for it always runs.
DEFAULT_QUEUE = "datacenter"


class NamedQueues:
    """Reads definitions that have changed since the last reading. One with a problem counts as it
    was before: the coordinator reports it, and keeps its last good version."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._queues: dict[Path, tuple[tuple[int, int], set[str]]] = {}

    def read(self) -> set[str]:
        """Returns all queues that definitions name now, and the default one."""
        files = loader.list_definition_files(self._folder)
        defaults_at = _changed_at(self._folder / loader.DEFAULTS)
        self._queues = {path: self._read_file(path, defaults_at) for path in files}
        return {DEFAULT_QUEUE}.union(*(queues for _, queues in self._queues.values()))

    def _read_file(self, path: Path, defaults_at: int) -> tuple[tuple[int, int], set[str]]:
        now = _changed_at(path), defaults_at
        before, queues = self._queues.get(path, ((0, 0), set[str]()))
        if now == before:
            return before, queues
        try:
            return now, loader.load_file(path).routing_preferences.queues
        except DefinitionError:
            return now, queues


def _changed_at(path: Path) -> int:
    """Returns the time of a file's last change, or 0 without it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
