"""Corrects a field of a definition by a click on a recorded page: the pages, a page's elements,
and sources that read an element, by `scraper sites pick` in a process of its own.

A parser may take minutes for a page that a shop makes for it, so no page is parsed in Flower's
process, and one such process runs at a time.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scraper import settings
from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.setup.child import Child
from scraper.sites import loader

# Less than Flower waits for an answer.
DEADLINE_S = 10.0
WAIT_S = 1.5
OUTPUT_MAX_BYTES = 4_000_000
_one_at_a_time = threading.Lock()


def pick(name: str, text: str, pages: Path, words: Sequence[str]) -> dict[str, Any]:
    """Returns what `scraper sites pick NAME WORDS` prints, with this text of the definition, or
    `busy` and an error while another page is searched. Raises `ConfigError` with its message, and
    `NotFoundError` without recorded pages."""
    if not pages.is_dir():
        raise NotFoundError("the pages of this shop are no longer kept (fix: read the shop again)")
    if not _one_at_a_time.acquire(timeout=WAIT_S):
        problem = "another page is being searched (fix: try again in a few seconds)"
        return {"busy": True, "error": problem}
    try:
        with tempfile.TemporaryDirectory(prefix="scraper-pick-") as folder:
            return _run_command(Path(folder), name, text, pages, words)
    finally:
        _one_at_a_time.release()


def _run_command(
    folder: Path, name: str, text: str, pages: Path, words: Sequence[str]
) -> dict[str, Any]:
    file = folder / f"{name}.yaml"
    file.write_bytes(text.encode("utf-8", "replace"))
    file.with_suffix(".pages").symlink_to(pages.absolute())
    defaults = settings.load().sites_dir / loader.DEFAULTS
    if defaults.is_file():
        (folder / loader.DEFAULTS).symlink_to(defaults.absolute())
    child = Child(
        ["sites", "pick", "--", name, *words],
        {"SCRAPER_SITES": str(folder)},
        lambda _: None,
        output_max_bytes=OUTPUT_MAX_BYTES,
    )
    ended = child.finish(DEADLINE_S, lambda: False)
    if ended.stopped:
        raise ConfigError(f"the page cannot be searched: {ended.stopped}")
    try:
        answer: dict[str, Any] = json.loads(ended.output)
    except ValueError:
        message = "\n".join(ended.errors).removeprefix("scraper: ")
        raise ConfigError(message.replace(f"{folder}/", "") or "no answer") from None
    return answer
