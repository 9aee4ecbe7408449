"""Plug-ins: what the shipped ones name is there, and what is off says why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import scraper
from scraper import registry
from scraper.models import Base
from scraper.plugin import VERSION, Hooks, Plugin, WorkerPart

PACKAGE = Path(scraper.__file__).parent
SQL_OF_TABLE = r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING)\s+(?:{})\b"


def references(plugin: Plugin) -> Iterator[str]:
    named = (plugin.settings, plugin.keys, plugin.hooks, plugin.worker)
    named += (plugin.on_load, plugin.on_worker_start)
    yield from (reference for reference in named if reference is not None)
    yield from (tick.step for tick in plugin.ticks)
    for task in plugin.tasks:
        yield from (task.run, *task.arguments.values())
    yield from (*plugin.services.values(), *plugin.exports.values())
    for name, command in plugin.commands.items():
        name = name.rpartition(" ")[2]
        yield f"{command.module}:{'try_' if name == 'try' else name}"


@pytest.mark.parametrize("plugin", registry.active_plugins(), ids=lambda plugin: plugin.name)
def test_what_a_shipped_plugin_names_is_there(plugin: Plugin) -> None:
    for reference in references(plugin):
        assert registry.resolve(reference) is not None, reference
    if plugin.hooks is not None:
        assert isinstance(registry.resolve(plugin.hooks), Hooks)
    if plugin.worker is not None:
        assert issubclass(registry.resolve(plugin.worker), WorkerPart)


def test_every_shipped_plugin_is_on_where_everything_is_installed() -> None:
    folder = Path(registry.__file__).parent / "plugins"
    shipped = {path.parent.name for path in folder.glob("*/plugin.py")}
    assert {row.name for row in registry.found_plugins() if not row.off} == shipped


def examined(plugin: object, off: frozenset[str] = frozenset()) -> registry.FoundPlugin:
    """What the registry says of a plug-in with that value."""

    class Entry(EntryPoint):
        def load(self) -> Any:
            return plugin

    return registry._examine_entry(Entry("a", "a.plugin:PLUGIN", registry.GROUP), off)


def test_a_plugin_that_is_off_says_why() -> None:
    lacking = Plugin(name="a", summary="", requires={"no_such_module": "'a[b]'"})
    assert examined(lacking).off == "not installed (fix: pip install 'a[b]')"
    assert "SCRAPER_PLUGINS_OFF" in examined(Plugin(name="a", summary=""), frozenset({"a"})).off
    assert "version" in examined(Plugin(name="a", summary="", version=VERSION + 1)).off
    assert "is not a Plugin" in examined("something else").off
    assert not examined(Plugin(name="a", summary="")).off


def tables_by_plugin() -> dict[str, set[str]]:
    """The tables of each plug-in's models, by the folder of the plug-in."""
    for module in registry.model_modules():
        import_module(module)
    tables: dict[str, set[str]] = {}
    for mapper in Base.registry.mappers:
        package = mapper.class_.__module__
        if package.startswith("scraper.plugins."):
            tables.setdefault(package.split(".")[2], set()).add(mapper.local_table.name)
    return tables


def test_only_a_plugin_itself_names_its_tables_in_sql() -> None:
    tables = tables_by_plugin()
    assert tables["alerts"] == {"alerts", "price_alerts"}
    assert tables["archive"] == {"archive_segments", "archived_pages"}
    pattern = {
        plugin: re.compile(SQL_OF_TABLE.format("|".join(names))) for plugin, names in tables.items()
    }
    files = [path for ending in ("py", "sql") for path in PACKAGE.rglob(f"*.{ending}")]
    assert len(files) > 500
    named = [
        f"{path.relative_to(PACKAGE)} names a table of {plugin}: {match[0]}"
        for path in files
        for plugin in tables
        if PACKAGE / "plugins" / plugin not in path.parents
        and (match := pattern[plugin].search(path.read_text(encoding="utf-8")))
    ]
    assert named == []


def test_a_file_may_name_what_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(registry.OFF_VARIABLE, raising=False)
    Path("off").write_text("archive, xlsx\n")
    Path("scraper.toml").write_text('plugins_off_file = "off"\n')
    assert registry.plugins_off() == {"archive", "xlsx"}
    Path("more").write_text("parquet\n")
    monkeypatch.setenv(f"{registry.OFF_VARIABLE}_FILE", "more")
    assert registry.plugins_off() == {"parquet"}
    monkeypatch.setenv(f"{registry.OFF_VARIABLE}_FILE", "none")
    assert registry.plugins_off() == set()
