"""Surveys of shops by `scraper new`, each in a process of its own. They live in the memory of
Flower's process; what is saved is a definition.

At most a few run at once, and only one per host. A survey writes into a folder of its own, so that
nothing reaches `sites/` before a person saves it.
"""

from __future__ import annotations

import atexit
import itertools
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from scraper import settings
from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.setup.child import Children, Ended
from scraper.rules.urls import host_of
from scraper.sites import loader

AT_ONCE = 2
WAITING_MAX = 500
KEPT_MAX = 500
DEADLINE_S = 600.0
_READING = re.compile(r"reading (\d{1,6}) (.*)").fullmatch

State = Literal["waiting", "reading", "ready", "failed", "cancelled"]


@dataclass(slots=True)
class ShopSurvey:
    """One shop. `text`: its definition, once it is ready; `findings`: what `scraper new --json`
    printed. `problem`: why the definition is missing, or what is wrong with it. `saved`: the name
    under which it was saved. `pages`: the folder of the pages that were read."""

    id: int
    url: str
    rate: str
    by: str
    asked_at: datetime
    state: State = "waiting"
    requests: int = 0
    page: str = ""
    name: str = ""
    text: str = ""
    problem: str = ""
    saved: str = ""
    findings: dict[str, Any] = field(default_factory=dict)
    pages: Path | None = None

    @property
    def is_open(self) -> bool:
        return self.state in ("waiting", "reading")

    @property
    def summary(self) -> dict[str, Any]:
        """Returns what a list shows."""
        names = ("id", "url", "by", "asked_at", "state", "requests", "page", "name", "saved")
        return {
            **{name: getattr(self, name) for name in names},
            "problem": self.problem[:300],
            "products": self.findings.get("products"),
            "fields": len(self.findings.get("fields") or ()),
        }


class Surveys:
    """The surveys of this process."""

    def __init__(self, at_once: int = AT_ONCE, deadline_s: float = DEADLINE_S) -> None:
        self._at_once, self._deadline_s = at_once, deadline_s
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._surveys: dict[int, ShopSurvey] = {}
        self._running: dict[int, ShopSurvey] = {}
        self._cancelled: set[int] = set()
        self._children = Children()
        # What surveys have read is on disk, and goes with them.
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add_shops(self, urls: Sequence[str], rate: str, by: str) -> list[int]:
        """Queues surveys, and returns their ids. Raises `ConfigError` if too many wait."""
        with self._lock:
            open_urls = {survey.url for survey in self._surveys.values() if survey.is_open}
            fresh = [url for url in urls if url not in open_urls]
            if len(open_urls) + len(fresh) > WAITING_MAX:
                raise ConfigError(f"at most {WAITING_MAX} shops wait at once (fix: add them later)")
            now, ids = datetime.now(UTC), []
            for url in fresh:
                survey = ShopSurvey(next(self._ids), url, rate, by, now)
                self._surveys[survey.id] = survey
                ids.append(survey.id)
            self._drop_oldest()
        self._start_due()
        return ids

    def list_all(self) -> list[ShopSurvey]:
        """Returns all surveys, the newest first."""
        with self._lock:
            return list(reversed(self._surveys.values()))

    def find_survey(self, id_: int) -> ShopSurvey:
        """Returns a survey. Raises `NotFoundError`."""
        survey = self._surveys.get(id_)
        if survey is None:
            raise NotFoundError(f"survey {id_} is no longer kept (fix: add the address again)")
        return survey

    def cancel_survey(self, id_: int) -> bool:
        """Ends a survey that waits or runs. Returns whether there was anything to end."""
        survey = self.find_survey(id_)
        with self._lock:
            if not survey.is_open:
                return False
            if survey.state == "waiting":
                survey.state = "cancelled"
            else:
                self._cancelled.add(id_)
        return True

    def forget_survey(self, id_: int) -> None:
        """Drops a survey."""
        self.cancel_survey(id_)
        with self._lock:
            self._drop(id_)

    def close(self) -> None:
        """Ends everything, when the process ends."""
        self._children.close()
        if self._folder is not None:
            self._folder.cleanup()

    def find_pages(self, site: str) -> Path | None:
        """Returns the pages of the newest survey that was saved as `site`."""
        saved = (survey for survey in self.list_all() if survey.saved == site and survey.pages)
        return next((survey.pages for survey in saved), None)

    def _keep_pages(self, pages: Path, id_: int) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="scraper-surveys-")
        return Path(shutil.move(pages, Path(self._folder.name) / str(id_)))

    def _drop(self, id_: int) -> None:
        survey = self._surveys.pop(id_, None)
        if survey is not None and survey.pages is not None:
            shutil.rmtree(survey.pages, ignore_errors=True)

    def _drop_oldest(self) -> None:
        done = [survey.id for survey in self._surveys.values() if not survey.is_open]
        for id_ in done[: max(0, len(self._surveys) - KEPT_MAX)]:
            self._drop(id_)

    def _start_due(self) -> None:
        """Starts waiting surveys while there is room: those of hosts that none reads now."""
        with self._lock:
            hosts = {host_of(survey.url) for survey in self._running.values()}
            for survey in self._surveys.values():
                if len(self._running) >= self._at_once or self._children.closed:
                    return
                if survey.state != "waiting" or host_of(survey.url) in hosts:
                    continue
                hosts.add(host_of(survey.url))
                survey.state = "reading"
                self._running[survey.id] = survey
                threading.Thread(target=self._run, args=(survey,), daemon=True).start()

    def _run(self, survey: ShopSurvey) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="scraper-new-") as folder:
                self._survey_shop(survey, Path(folder))
        except OSError as error:
            survey.state, survey.problem = "failed", f"no process could be started: {error}"
        finally:
            with self._lock:
                del self._running[survey.id]
                self._cancelled.discard(survey.id)
            self._start_due()

    def _survey_shop(self, survey: ShopSurvey, folder: Path) -> None:
        rate = ["--rate", survey.rate] if survey.rate else []
        words = ["new", "--json", "--record", *rate, "--", survey.url]
        defaults = settings.load().sites_dir / loader.DEFAULTS
        if defaults.is_file():
            (folder / loader.DEFAULTS).symlink_to(defaults.absolute())
        environment = {"SCRAPER_SITES": str(folder), "COLUMNS": "200"}
        ended = self._children.run(
            words,
            environment,
            partial(_note_request, survey),
            self._deadline_s,
            lambda: survey.id in self._cancelled,
        )
        for pages in folder.glob("*.pages"):
            survey.pages = self._keep_pages(pages, survey.id)
        _record_end(survey, ended, next(iter(loader.list_definition_files(folder)), None))


def _note_request(survey: ShopSurvey, line: str) -> None:
    match = _READING(line)
    if match is not None:
        survey.requests, survey.page = int(match[1]), match[2]


def _record_end(survey: ShopSurvey, ended: Ended, file: Path | None) -> None:
    """Records what a process left: a definition, an explanation, or both."""
    errors = [line for line in ended.errors if not _READING(line)]
    message = "\n".join(errors).removeprefix("scraper: ")
    survey.problem = message.replace(str(file), "the definition")
    if ended.stopped:
        survey.state = "cancelled" if ended.stopped == "cancelled" else "failed"
        survey.problem = f"The survey was ended: {ended.stopped}."
        return
    try:
        findings = json.loads(ended.output)
    except ValueError:
        findings = None
    if file is None or not isinstance(findings, dict):
        survey.state = "failed"
        survey.problem = survey.problem or f"`scraper new` ended with {ended.code}"
        return
    survey.name, survey.text, survey.findings = file.stem, file.read_text("utf-8"), findings
    # The last of what others see: they read without the lock.
    survey.state = "ready"


SURVEYS = Surveys()
atexit.register(SURVEYS.close)
