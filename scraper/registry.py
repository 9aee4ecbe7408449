"""Finds plug-ins, decides which are on, and resolves what they add.

A plug-in's entry point is read; its references are followed one by one, when the core needs them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from scraper.errors import ConfigError, ScraperError
from scraper.plugin import CRAWLS, DATA, FLEET, SETUP, VERSION, Command, Hooks, Plugin, Task, Tick

GROUP = "scraper.plugins"
OFF_VARIABLE = "SCRAPER_PLUGINS_OFF"
PROJECT_FILE = "scraper.toml"
CORE_COMMANDS = {
    "crawl": Command(CRAWLS, "scraper.cli.crawl.crawls"),
    "export": Command(DATA, "scraper.cli.data.export"),
    "history": Command(DATA, "scraper.cli.data.products"),
    "host": Command(FLEET, "scraper.cli.fleet.hosts"),
    "plugins": Command(SETUP, "scraper.cli.setup.plugins"),
    "products": Command(DATA, "scraper.cli.data.products"),
    "proxies": Command(FLEET, "scraper.cli.fleet.proxies"),
    "settings": Command(SETUP, "scraper.cli.setup.settings_table"),
    "sites": Command(SETUP, "scraper.cli.setup.sites_group"),
    "status": Command(CRAWLS, "scraper.cli.crawl.status"),
    "stop": Command(CRAWLS, "scraper.cli.crawl.crawls"),
}
CORE_SUBCOMMANDS = tuple(f"sites {name}" for name in ("check", "delete", "list", "pause", "resume"))
CORE_TASKS = tuple(
    f"task {name}"
    for name in (
        "plan",
        "discover",
        "dispatch",
        "reap",
        "finish",
        "fetch_listings",
        "fetch_products",
    )
)
CORE_FORMS = ("form csv", "form jsonl")
# Plug-ins with a setting or key that another has, and why they are off.
_refused: dict[str, str] = {}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """An installed plug-in. `off` says why it is off and how to switch it on; empty: it is on.
    `plugin` is None where its module cannot be imported."""

    name: str
    plugin: Plugin | None
    off: str
    entry: EntryPoint

    @property
    def distribution(self) -> str:
        """The name of the package, which its metadata says: asking for all takes 20 ms."""
        return self.entry.dist.name if self.entry.dist is not None else ""

    def explain_need(self) -> str:
        """Says that something needs this plug-in, which is off."""
        return f"needs the plug-in {self.name}, which is off: {self.off}"


@lru_cache(maxsize=1)
def found_plugins() -> tuple[FoundPlugin, ...]:
    """Every installed plug-in, by name."""
    off = plugins_off()
    found = {entry.name: _examine_entry(entry, off) for entry in entry_points(group=GROUP)}
    rows = _refuse_clashes(_shipped_first(found.values()))
    return tuple(sorted(rows, key=lambda row: row.name))


@lru_cache(maxsize=1)
def active_plugins() -> tuple[Plugin, ...]:
    """The plug-ins that are on, by name."""
    return tuple(row.plugin for row in found_plugins() if row.plugin is not None and not row.off)


def plugins_off() -> frozenset[str]:
    """The names that the environment or the project's file switches off. Read here because the
    other settings are partly the plug-ins' own."""
    text, path = os.environ.get(OFF_VARIABLE), os.environ.get(f"{OFF_VARIABLE}_FILE")
    # `scraper.settings` reports a file that cannot be read, and one that is named next to a value.
    with suppress(OSError, ValueError):
        if text is None and not path:
            project = tomllib.loads(Path(PROJECT_FILE).read_text(encoding="utf-8"))
            text, path = project.get("plugins_off"), project.get("plugins_off_file")
        if path and not text:
            text = Path(str(path)).read_text("utf-8-sig")
    return frozenset(str(text or "").replace(",", " ").split())


def require_known_off() -> None:
    """Raises `ConfigError` if no plug-in has a name that is switched off. Imports of this package
    never raise it: what is imported first could not report it in one line."""
    names = [row.name for row in found_plugins()]
    for name in sorted(plugins_off() - {*names}):
        raise ConfigError(f"{OFF_VARIABLE}: no plug-in is named {name!r} (fix: {', '.join(names)})")


def resolve(reference: str) -> Any:
    """The object that `"package.module:object"` names. Raises `ConfigError`, which names the
    plug-in, if that cannot be imported."""
    module, _, name = reference.partition(":")
    try:
        return getattr(import_module(module), name)
    except ScraperError:
        raise
    except Exception as error:
        # A command names its module alone.
        texts = (repr(reference), repr(module))
        plugins = (row.plugin for row in found_plugins() if row.plugin is not None)
        owner = next((row for row in plugins if any(text in repr(row) for text in texts)), None)
        if owner is None:
            raise
        raise ConfigError(
            f"the plug-in {owner.name} cannot be used: {type(error).__name__}: {error} "
            f"(fix: install it again, or switch it off by {OFF_VARIABLE}={owner.name})"
        ) from error


@lru_cache(maxsize=1)
def plugin_hooks() -> Mapping[str, Hooks]:
    """The hooks of the plug-ins that are on, by the plug-ins' names."""
    return {plugin.name: resolve(plugin.hooks) for plugin in active_plugins() if plugin.hooks}


def installed_hooks() -> Mapping[str, Hooks]:
    """The hooks of every plug-in that can be imported, also of one that is switched off: what it
    has stored can still be counted and deleted."""
    hooks = {}
    for row in found_plugins():
        if row.plugin is not None and row.plugin.hooks is not None:
            with suppress(ConfigError):
                hooks[row.name] = resolve(row.plugin.hooks)
    return hooks


def model_modules() -> list[str]:
    """The modules with the tables that a migrated database has: a plug-in that is off has none,
    unless the core's history creates them."""
    return [
        row.plugin.models
        for row in found_plugins()
        if row.plugin is not None
        and row.plugin.models is not None
        and (not row.off or row.plugin.migrations is None)
    ]


def first_answer(answers: Iterable[T | None]) -> T | None:
    """The first answer of the plug-ins that is not None."""
    return next((answer for answer in answers if answer is not None), None)


def find_service(protocol: type[T]) -> T | None:
    """The object with which a plug-in fills a protocol of the core; None: no plug-in does."""
    for plugin in active_plugins():
        reference = plugin.services.get(protocol.__name__)
        if reference is not None:
            return cast(T, resolve(reference))
    return None


def require_service(protocol: type[T], feature: str) -> T:
    """The object that fills a protocol of the core. Raises `ConfigError` if no plug-in does."""
    service = find_service(protocol)
    if service is None:
        inactive = inactive_plugin_with("services", protocol.__name__)
        need = inactive.explain_need() if inactive else "needs a plug-in that is not installed"
        raise ConfigError(f"{feature} {need}")
    return service


def plugin_subcommands(group: str) -> dict[str, str]:
    """The modules of the subcommands that plug-ins add to a group of commands, by name."""
    commands = plugin_commands().items()
    parts = {tuple(name.split(" ")): row.module for name, row in commands if " " in name}
    return {name: module for (parent, name), module in parts.items() if parent == group}


def plugin_commands() -> dict[str, Command]:
    return {name: row for plugin in active_plugins() for name, row in plugin.commands.items()}


def run_plugin_steps(attribute: str, *arguments: object) -> None:
    """Calls what each plug-in names as `on_load` or `on_worker_start`."""
    for reference in _list_references(attribute):
        resolve(reference)(*arguments)


def plugin_exports() -> dict[str, str]:
    """References to the export forms of plug-ins, by the forms' names."""
    return {name: ref for plugin in active_plugins() for name, ref in plugin.exports.items()}


def known_exports() -> list[str]:
    """The names of the export forms of plug-ins, also of those that are off."""
    return [name for row in found_plugins() if row.plugin for name in row.plugin.exports]


def plugin_ticks() -> Iterator[Tick]:
    for plugin in active_plugins():
        yield from plugin.ticks


def plugin_tasks() -> dict[str, Task]:
    """The tasks of plug-ins, by name."""
    return {task.name: task for plugin in active_plugins() for task in plugin.tasks}


def extended(name: str, base: type[T], attribute: str) -> type[T]:
    """A subclass of `base` that also inherits from the class that each plug-in names as
    `attribute`: this is how plug-ins add settings and keys of definitions. Switches a plug-in off
    if `base` or another plug-in has one of its names."""
    fields: Iterable[str] = cast(Any, base).model_fields
    owners, parts = dict.fromkeys((*dir(base), *fields), "the core"), []
    for row in _shipped_first(found_plugins()):
        reference = getattr(row.plugin, attribute, None)
        if reference is not None and not row.off:
            part = resolve(reference)
            clash = _claim_names(owners, row.name, part.model_fields)
            if clash:
                _refuse_plugin(row.name, clash)
            else:
                parts.append(part)
    return cast(
        type[T],
        type(name, (*parts, base), {"__module__": base.__module__, "__doc__": base.__doc__}),
    )


def inactive_plugin_of_key(key: str) -> FoundPlugin | None:
    """The plug-in that is off and would add this key to definitions."""
    return next((row for row, keys in _inactive_keys() if key in keys.model_fields), None)


def inactive_plugin_with(
    part: Literal["commands", "exports", "services"], name: str
) -> FoundPlugin | None:
    """The plug-in that is off and would add this command, form of exports or service."""
    rows = (row for row in found_plugins() if row.off and row.plugin)
    return next((row for row in rows if name in getattr(row.plugin, part)), None)


@lru_cache(maxsize=1)
def inactive_defaults() -> dict[str, Any]:
    """The keys of plug-ins that are off, each with its default as JSON."""
    defaults: dict[str, Any] = {}
    for _, keys in _inactive_keys():
        defaults |= keys().model_dump(mode="json")
    return defaults


def keys_of(row: FoundPlugin) -> tuple[str, ...]:
    """The keys that a plug-in adds to definitions."""
    if row.plugin is None or row.plugin.keys is None:
        return ()
    return tuple(resolve(row.plugin.keys).model_fields)


def settings_of(row: FoundPlugin) -> tuple[str, ...]:
    """The environment variables that a plug-in adds."""
    if row.plugin is None or row.plugin.settings is None:
        return ()
    return tuple(f"SCRAPER_{name.upper()}" for name in resolve(row.plugin.settings).model_fields)


def tables_of(row: FoundPlugin) -> list[str]:
    """The tables that a plug-in adds."""
    if row.plugin is None or row.plugin.models is None:
        return []
    members = vars(import_module(row.plugin.models)).values()
    tables = (vars(member).get("__tablename__") for member in members if isinstance(member, type))
    return sorted(table for table in tables if table is not None)


def hooks_of(row: FoundPlugin) -> list[str]:
    """The methods of `Hooks` that a plug-in has."""
    if row.plugin is None or row.plugin.hooks is None:
        return []
    hooks = type(resolve(row.plugin.hooks))
    return [
        name
        for name, method in vars(Hooks).items()
        if not name.startswith("_") and getattr(hooks, name) is not method
    ]


def _inactive_keys() -> Iterator[tuple[FoundPlugin, Any]]:
    """The plug-ins that are off, with their classes of keys, as far as these can be imported."""
    for row in found_plugins():
        if row.off and row.plugin and row.plugin.keys:
            with suppress(ConfigError):
                yield row, resolve(row.plugin.keys)


def _list_references(attribute: str) -> list[str]:
    references = [getattr(plugin, attribute) for plugin in active_plugins()]
    return [reference for reference in references if reference is not None]


def _examine_entry(entry: EntryPoint, off: frozenset[str]) -> FoundPlugin:
    try:
        plugin = entry.load()
    except Exception as error:  # noqa: BLE001 - a plug-in of another author may raise anything
        reason = f"cannot be imported: {type(error).__name__}: {error}"
        return FoundPlugin(entry.name, None, reason, entry)
    if not isinstance(plugin, Plugin):
        return FoundPlugin(entry.name, None, f"{entry.value} is not a Plugin", entry)
    return FoundPlugin(entry.name, plugin, _why_off(plugin, off), entry)


def _refuse_clashes(rows: Iterable[FoundPlugin]) -> Iterator[FoundPlugin]:
    """Switches off a plug-in with a name that the core or a plug-in before it has."""
    owners = dict.fromkeys(
        (*CORE_COMMANDS, *CORE_SUBCOMMANDS, *CORE_TASKS, *CORE_FORMS), "the core"
    )
    for row in rows:
        off = row.off or _refused.get(row.name, "")
        if row.plugin is not None and not off:
            off = _claim_names(owners, row.name, _names_of(row.plugin))
        yield replace(row, off=off)


def _names_of(plugin: Plugin) -> list[str]:
    """Returns what no other plug-in may have: two ticks with one name would be one task."""
    return [
        *plugin.commands,
        *(f"task {tick.name}" for tick in plugin.ticks),
        *(f"task {task.name}" for task in plugin.tasks),
        *(f"form {name}" for name in plugin.exports),
        *(f"service {name}" for name in plugin.services),
    ]


def _shipped_first(rows: Iterable[FoundPlugin]) -> list[FoundPlugin]:
    return sorted(rows, key=lambda row: (not row.entry.value.startswith("scraper."), row.name))


def _claim_names(owners: dict[str, str], plugin: str, names: Iterable[str]) -> str:
    """Makes a plug-in the owner of `names`, unless one of them has an owner: says which."""
    clash = next((name for name in names if name in owners), None)
    if clash is not None:
        return f"`{clash}` already belongs to {owners[clash]}"
    owners |= dict.fromkeys(names, f"the plug-in {plugin}")
    return ""


def _refuse_plugin(name: str, why: str) -> None:
    _refused[name] = why
    for cached in (found_plugins, active_plugins, plugin_hooks, inactive_defaults):
        cached.cache_clear()


def _why_off(plugin: Plugin, off: frozenset[str]) -> str:
    if plugin.version != VERSION:
        return f"made for version {plugin.version} of the plug-in interface, this is {VERSION}"
    if plugin.name in off:
        return f"switched off by {OFF_VARIABLE} (fix: remove it there)"
    missing = [what for module, what in plugin.requires.items() if find_spec(module) is None]
    return f"not installed (fix: pip install {' '.join(missing)})" if missing else ""
