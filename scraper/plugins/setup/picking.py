"""Corrects a field of a definition by a click on a recorded page: the pages, a page's elements,
and sources that read an element, by `scraper sites pick` in a process of its own.

A parser may take minutes for a page that a shop makes for it, so no page is parsed in Flower's
process, and one such process runs at a time.
"""

from __future__ import annotations

import atexit
import json
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

from scraper import settings
from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.setup.child import ENDING_S, Child
from scraper.sites import loader

DEADLINE_S = 60.0
# How long a question waits for its answer; the browser asks again.
WAIT_S = 2.0
OUTPUT_MAX_BYTES = 4_000_000
_Question = tuple[str, str, Path, tuple[str, ...]]
_lock = threading.Lock()
_ending = threading.Event()
# The search that runs, and what its questioner has not fetched.
_searches: dict[_Question, Future[dict[str, Any]]] = {}


def pick(name: str, text: str, pages: Path, words: Sequence[str]) -> dict[str, Any]:
    """Returns what `scraper sites pick NAME WORDS` prints, with this text of the definition, or
    `busy` and an error until that is there. Raises `ConfigError` with its message, and
    `NotFoundError` without recorded pages."""
    if not pages.is_dir():
        raise NotFoundError("the pages of this shop are no longer kept (fix: read the shop again)")
    question = (name, text, pages, tuple(words))
    with _lock:
        running = [search for search in _searches.values() if not search.done()]
        if question not in _searches and not running:
            # What was not fetched until now is asked again if it is still wanted.
            _searches.clear()
            _searches[question] = Future()
            threading.Thread(target=_search, args=(question,), daemon=True).start()
        mine = _searches.get(question)
    wait([mine or running[0]], WAIT_S)
    if mine is None or not mine.done():
        problem = "a page is still being searched (fix: try again in a few seconds)"
        return {"busy": True, "error": problem}
    with _lock:
        _searches.pop(question, None)
    return mine.result()


def close() -> None:
    """Ends the search that runs, when the process ends."""
    _ending.set()
    wait(list(_searches.values()), ENDING_S)


def _search(question: _Question) -> None:
    search = _searches[question]
    try:
        search.set_result(_run_command(*question))
    except Exception as error:  # noqa: BLE001 - `pick` raises it
        search.set_exception(error)


def _run_command(name: str, text: str, pages: Path, words: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="scraper-pick-") as folder:
        return _run_in_folder(Path(folder), name, text, pages, words)


def _run_in_folder(
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
    ended = child.finish(DEADLINE_S, _ending.is_set)
    if ended.stopped:
        raise ConfigError(f"the page cannot be searched: {ended.stopped}")
    try:
        answer: dict[str, Any] = json.loads(ended.output)
    except ValueError:
        message = "\n".join(ended.errors).removeprefix("scraper: ")
        raise ConfigError(message.replace(f"{folder}/", "") or "no answer") from None
    return answer


atexit.register(close)
