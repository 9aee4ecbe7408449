"""Plug-ins: what the shipped ones name is there, what is off says why, and one from outside works
like the project's."""

from __future__ import annotations

import json
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
from tests.support.outside_plugin import OutsidePlugin

PACKAGE = Path(scraper.__file__).parent
OUTSIDE = '''"""Ratings of shops: a plug-in of another author."""

import click

from scraper.plugin import DATA, Command, Hooks, Plugin
from scraper.sites.plugin_keys import DefinitionKeys


class RatingKeys(DefinitionKeys):
    ratings: bool = False


class RatingHooks(Hooks):
    def check_site(self, site, settings):
        if site.of(RatingKeys).ratings and not site.title:
            yield "ratings", "a rated shop needs a `title` (fix: add one)"


@click.command()
def ratings():
    """Show the ratings of shops."""
    click.echo("5 of 5")


@click.command()
def stars():
    """Show the stars of a site."""
    click.echo("*****")


HOOKS = RatingHooks()
FORM = object()
PLUGIN = Plugin(
    name="ratings",
    summary="rates shops",
    keys="shop_ratings.plugin:RatingKeys",
    hooks="shop_ratings.plugin:HOOKS",
    commands={
        "ratings": Command(DATA, "shop_ratings.plugin"),
        "sites stars": Command(DATA, "shop_ratings.plugin"),
    },
    exports={"stars": "shop_ratings.plugin:FORM"},
)
'''
SHOP = """
start: https://shop.example/
listing: {products: a.product}
product: {fields: {title: h1}}
"""

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


@pytest.fixture
def outside(tmp_path: Path) -> OutsidePlugin:
    return OutsidePlugin(tmp_path, "ratings", {"plugin.py": OUTSIDE})


def test_a_plugin_of_another_author_adds_keys_commands_and_checks(outside: OutsidePlugin) -> None:
    rows = {row["name"]: row for row in json.loads(outside.scraper("plugins", "--json").stdout)}
    assert rows["ratings"]["on"] and rows["ratings"]["distribution"] == "shop-ratings"
    assert rows["ratings"]["keys"] == ["ratings"]
    assert rows["ratings"]["commands"] == ["ratings", "sites stars"]
    assert "ratings" in outside.scraper("--help").stdout
    assert outside.scraper("ratings").stdout == "5 of 5\n"
    assert outside.scraper("sites", "stars").stdout == "*****\n"
    site = outside.sites / "shop.yaml"
    site.write_text(SHOP + "ratings: true\n")
    refused = outside.scraper("sites", "check")
    assert refused.returncode == 2 and "shop.yaml:5: ratings: a rated shop needs" in refused.stderr
    site.write_text(SHOP + "ratings: true\ntitle: A shop\n")
    assert outside.scraper("sites", "check").returncode == 0


def test_a_definition_that_needs_a_plugin_that_is_off_names_it(outside: OutsidePlugin) -> None:
    (outside.sites / "shop.yaml").write_text(SHOP + "archive: true\n")
    assert outside.scraper("sites", "check").returncode == 0
    refused = outside.scraper("sites", "check", SCRAPER_PLUGINS_OFF="archive")
    assert refused.returncode == 2
    assert "archive: needs the plug-in archive, which is off" in refused.stderr
    unknown = outside.scraper("plugins", SCRAPER_PLUGINS_OFF="arhive")
    assert unknown.returncode == 2 and "no plug-in is named 'arhive'" in unknown.stderr
    gone = outside.scraper("reextract", "shop", SCRAPER_PLUGINS_OFF="archive")
    assert gone.returncode == 2
    assert "'reextract' needs the plug-in archive, which is off: " in gone.stderr
    gone = outside.scraper("sites", "stars", SCRAPER_PLUGINS_OFF="ratings")
    assert gone.returncode == 2
    assert "'stars' needs the plug-in ratings, which is off: " in gone.stderr


FORMS = """
import sys
from scraper.cli.data.export import form_of
from scraper.errors import ConfigError
for name in sys.argv[1:]:
    try:
        print(form_of(name))
    except ConfigError as error:
        print(error)
"""


def test_the_ending_of_a_file_names_a_form_of_any_plugin(outside: OutsidePlugin) -> None:
    done = outside.run("-c", FORMS, "a.stars", "a.pq", "a.csv", "a.moons")
    *forms, unknown = done.stdout.splitlines()
    assert forms == ["stars", "parquet", "csv"], done.stderr
    assert unknown.startswith("a.moons: unknown ending .moons (fix: --format csv, jsonl, ")
    assert "stars" in unknown
    done = outside.run("-c", FORMS, "a.stars", "a.pq", SCRAPER_PLUGINS_OFF="ratings,parquet")
    stars, parquet = done.stdout.splitlines()
    assert stars.startswith("stars needs the plug-in ratings, which is off: ")
    assert parquet.startswith("parquet needs the plug-in parquet, which is off: ")


def test_a_preview_names_the_plugin_that_brings_it(outside: OutsidePlugin) -> None:
    (outside.sites / "shop.yaml").write_text(SHOP)
    refused = outside.scraper("crawl", "shop", "--preview", "1", SCRAPER_PLUGINS_OFF="author")
    assert refused.returncode == 2
    assert "--preview needs the plug-in author, which is off: " in refused.stderr


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
