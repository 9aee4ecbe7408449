"""A plug-in of another author works like the project's, and what needs one that is off names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scraper import registry
from tests.support.outside_plugin import OutsidePlugin

pytestmark = pytest.mark.slow

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
    assert outside.scraper("--help", SCRAPER_PLUGINS_OFF="arhive").returncode == 0
    unknown = outside.run("-m", "celery", "-A", "scraper", "report", SCRAPER_PLUGINS_OFF="arhive")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("scraper: SCRAPER_PLUGINS_OFF: no plug-in is named 'arhive'")
    gone = outside.scraper("reextract", "shop", SCRAPER_PLUGINS_OFF="archive")
    assert gone.returncode == 2
    assert "scraper: 'reextract' needs the plug-in archive, which is off: " in gone.stderr
    gone = outside.scraper("sites", "stars", SCRAPER_PLUGINS_OFF="ratings")
    assert gone.returncode == 2
    assert "scraper: 'stars' needs the plug-in ratings, which is off: " in gone.stderr


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


BROKEN = """
from scraper.plugin import Command, Plugin

PLUGIN = Plugin(
    name="broken",
    summary="names modules that are not there",
    settings="no_such_module:Settings",
    keys="no_such_module:Keys",
    commands={"wreck": Command("Stock", "shop_broken.no_such_command")},
)
"""


def test_a_plugin_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    outside = OutsidePlugin(tmp_path, "broken", {"plugin.py": BROKEN})
    for command, module in (("status", "no_such_module"), ("wreck", "shop_broken.no_such_command")):
        refused = outside.scraper(command)
        assert (refused.returncode, refused.stderr) == (
            2,
            "scraper: the plug-in broken cannot be used: ModuleNotFoundError: No module named "
            f"{module!r} (fix: install it again, or switch it off by SCRAPER_PLUGINS_OFF=broken)\n",
        )
    shown = outside.scraper("plugins")
    assert shown.returncode == 0 and "the plug-in broken cannot be used" in shown.stdout
    listed = outside.scraper("--help")
    assert listed.returncode == 0 and "Stock:\n  wreck" in listed.stdout
    assert "the plug-in broken cannot" in listed.stdout
    off = {"SCRAPER_PLUGINS_OFF": "broken"}
    shown = outside.scraper("plugins", **off)
    assert shown.returncode == 0 and "broken is off: " in shown.stdout
    (outside.sites / "shop.yaml").write_text(SHOP)
    assert outside.scraper("sites", "check", **off).returncode == 0


CLASHING = """
from pydantic import BaseModel

from scraper.plugin import DATA, Command, Plugin, Tick
from scraper.sites.plugin_keys import DefinitionKeys


class Keys(DefinitionKeys):
    {key}: str = "2d"


class Settings(BaseModel):
    {setting}: int = 0


PLUGIN = Plugin(
    name="clashing", summary="", keys="shop_clashing.plugin:Keys",
    settings="shop_clashing.plugin:Settings",
    commands={{"{command}": Command(DATA, "shop_clashing.command")}},
    ticks=[Tick("{task}", 3600.0, "shop_clashing.command:tick")],
    exports={{"{form}": "shop_clashing.command:Form"}},
    services={{"{service}": "shop_clashing.command:Service"}},
)
"""
CLASH = """
import click
import scraper.settings


@click.command()
def clash():
    pass
"""
LOADED = "from scraper.sites.loader import load_folder; print(load_folder('sites')[0].revisit)"


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ({"command": "status"}, "the core"),
        ({"command": "sites list"}, "the core"),
        ({"command": "report"}, "the plug-in report"),
        ({"setting": "attempts_max"}, "the core"),
        ({"setting": "metrics_port"}, "the plug-in metrics"),
        ({"key": "revisit"}, "the core"),
        ({"key": "rate_per_s"}, "the core"),
        ({"key": "archive"}, "the plug-in archive"),
        ({"task": "dispatch"}, "the core"),
        ({"task": "call_functions"}, "the plug-in functions"),
        ({"form": "csv"}, "the core"),
        ({"form": "parquet"}, "the plug-in parquet"),
        ({"service": "LocalServers"}, "the plug-in embedded"),
    ],
)
def test_a_plugin_with_a_name_that_has_an_owner_is_off(
    tmp_path: Path, name: dict[str, str], owner: str
) -> None:
    own = {"key": "mine", "setting": "own", "command": "clash", "task": "wait", "form": "tsv"}
    text = CLASHING.format(**own | {"service": "Own"} | name)
    outside = OutsidePlugin(tmp_path, "clashing", {"plugin.py": text, "command.py": CLASH})
    rows = {row["name"]: row for row in json.loads(outside.scraper("plugins", "--json").stdout)}
    ((kind, clash),) = name.items()
    named = f"{kind} {clash}" if kind in ("task", "form", "service") else clash
    assert rows.pop("clashing")["off"] == f"`{named}` already belongs to {owner}"
    assert {row["name"] for row in rows.values() if row["on"]} == {
        row.name for row in registry.found_plugins() if not row.off
    }
    if clash == "revisit":
        (outside.sites / "shop.yaml").write_text(SHOP + "revisit: 2d\n")
        loaded = outside.run("-c", LOADED)
        assert "2d" in loaded.stdout, loaded.stderr
    if clash == "attempts_max":
        refused = outside.scraper("clash").stderr
        assert refused.startswith("scraper: 'clash' needs the plug-in clashing, which is off: `")
    if clash == "sites list":
        assert outside.scraper("sites", "list", "--help").stdout.startswith("Usage: ")
