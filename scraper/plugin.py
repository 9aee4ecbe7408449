"""The plug-in interface, version 1: what an optional feature adds.

A plug-in is one value, `PLUGIN = Plugin(...)`, in a module that an entry point of the group
`scraper.plugins` names:

    [project.entry-points."scraper.plugins"]
    ratings = "shop_ratings.plugin:PLUGIN"

Everything it adds is named by a reference, `"package.module:object"`, and imported when the core
first needs it, so that an installed plug-in costs nothing until it is used. Commands and ticks run
in any process; a `WorkerPart` lives in each worker process, on its event loop. A plug-in is on when
it is installed, its requirements can be imported, and SCRAPER_PLUGINS_OFF does not name it;
`scraper plugins` shows this.

A plug-in imports this module and the packages that docs/reference/plugins.md names.
The core never imports a plug-in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scraper.hooks import Coverage as Coverage
from scraper.hooks import CoverageReader as CoverageReader
from scraper.hooks import Hooks as Hooks
from scraper.hooks import WorkerPart as WorkerPart

VERSION = 1
# The arguments of a task, as text in a message.
TASK_ARGUMENTS_MAX_BYTES = 500_000
# The sections of `scraper --help`.
SETUP, CRAWLS, DATA = "Set-up", "Crawls", "Data"
FLEET = "Hosts, proxies, accounts and workers"


class Command(NamedTuple):
    """A command of the command line: a section of the help (`SETUP`, `CRAWLS`, `DATA`, `FLEET` of
    this module, or another text), and `"package.module"`, which has a click command of the
    command's name. The name `"sites record"` is a command of a group."""

    section: str
    module: str


class Tick(NamedTuple):
    """A step that beat schedules each `every_s` seconds, on the coordinator queue: a reference to
    `step(engine, settings) -> Sequence[Message]`. With `setting`, only if that setting is given."""

    name: str
    every_s: float
    step: str
    setting: str | None = None


class Task(NamedTuple):
    """A Celery task that workers run in a slot: a reference to `run(host, **arguments)`, where
    `host` is a `WorkerHost`, and for each argument one to a function that says whether a value from
    the broker may be it."""

    name: str
    run: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """What a plug-in adds. Only its name and summary are required."""

    name: str
    summary: str
    version: int = VERSION
    # A module that must be importable, to what installs it.
    requires: Mapping[str, str] = field(default_factory=dict)
    # A pydantic model, whose fields become settings (`SCRAPER_…`), read by `settings.of(model)`.
    # `scraper settings` hides fields with `repr=False`.
    settings: str | None = None
    # A class of `scraper.sites.plugin_keys.DefinitionKeys`, read by a site's `of(keys)`.
    keys: str | None = None
    commands: Mapping[str, Command] = field(default_factory=dict)
    ticks: Sequence[Tick] = ()
    tasks: Sequence[Task] = ()
    # `load(arguments)`, called with the command line when Celery loads the application.
    on_load: str | None = None
    # `start(settings, queues)`, called before a worker takes messages; a `ScraperError` ends it.
    on_worker_start: str | None = None
    # An object of `Hooks`.
    hooks: str | None = None
    # A class of `WorkerPart`.
    worker: str | None = None
    # A protocol of the core, by name, to an object that fills it, as `LocalServers`.
    services: Mapping[str, str] = field(default_factory=dict)
    # A module whose tables inherit from `scraper.models.Base`, and the package whose folder holds
    # their Alembic revisions, `0001_*.py` first: a history of the plug-in's own. Only the plug-in
    # names its tables in SQL.
    models: str | None = None
    migrations: str | None = None
    # A page of the Crawls tab, at /crawls/NAME, to a module with TITLE, SCRIPT (the path of the
    # JavaScript that fills an empty page), `read(connection, query) -> dict`, whose JSON the script
    # requests, and ACTIONS: by name, functions `act(engine, body, user)`, which return a sentence.
    tab_pages: Mapping[str, str] = field(default_factory=dict)
    # A form of exports, to a `scraper.cli.data.export.ExportForm`.
    exports: Mapping[str, str] = field(default_factory=dict)
