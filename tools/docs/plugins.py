"""The reference of plug-ins: those that scraper has, and the interface for others."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import EntryPoint

from scraper.plugin import Plugin
from scraper.registry import FoundPlugin, keys_of, resolve, settings_of
from tools.docs.markup import plain, table
from tools.docs.python_api import ROOT, Part, part_texts

HEAD = """# Plug-ins

`scraper plugins` lists the installed plug-ins, why a plug-in is off, and what each adds.
`SCRAPER_PLUGINS_OFF` switches plug-ins off. [Write a plug-in](../how-to/plugins.md) is the guide to
the interface below.

## Bundled plug-ins
"""
SURFACE = """## The surface of the core

A plug-in may rely on this page and on the [Python API](python.md). It may import other modules of
the core, which can change in any release, but none of these, which run the processes:
"""
# The contract in pyproject.toml that keeps plug-ins out of some modules.
CONTRACT = "Plug-ins stay out of what runs the processes"
INTERFACE = (
    Part(
        "scraper.plugin",
        "What a plug-in adds. Import the names of `scraper.hooks` from here too.",
        ("Plugin", "Command", "Tick", "Task"),
    ),
    Part(
        "scraper.hooks",
        "Where the core calls a plug-in.",
        ("Hooks", "Hooks.*", "WorkerPart", "WorkerPart.*"),
    ),
    Part(
        "scraper.sites.plugin_keys",
        "The base class of a plug-in's keys.",
        ("DefinitionKeys", "DefinitionKeys.check"),
    ),
    Part(
        "scraper.sites.grammar.model",
        "The list that `DefinitionKeys.check` adds to.",
        ("Problems.add",),
    ),
    Part("scraper.worker.host", "What a `WorkerPart` gets.", ("WorkerHost",)),
    Part(
        "scraper.domain", "What steps and workers exchange.", ("Message", "LeasedPage", "Fetched")
    ),
    Part(
        "scraper.crawl.context",
        "What a worker knows of a crawl. [Definition keys](keys.md) lists the keys of `site`.",
        ("CrawlContext",),
    ),
    Part("scraper.worker.batch", "The pages of a message, and one try of a page.", ("Attempt",)),
    Part(
        "scraper.results.transaction",
        "What a worker stores, and what the transaction did.",
        ("PageResult", "StoredGroup"),
    ),
    Part("scraper.rules.quality", "What `Hooks.judge_crawl` yields.", ("Reason",)),
    Part("scraper.cli.data.export", "A form of exports.", ("ExportForm.write",)),
    Part("scraper.views.rows", "What a form writes.", ("Table",)),
    Part(
        "scraper.plugins.flower.tab_pages",
        "A module in `Plugin.tab_pages`.",
        ("TabPage", "TabPage.read"),
    ),
)


def plugins_page() -> str:
    return (
        HEAD
        + "\n"
        + table(("plug-in", "what for", "commands", "keys", "settings", "needs"), plugin_rows())
        + "".join(f"\n{text}" for part in INTERFACE for text in part_texts(part))
        + f"\n{SURFACE}\n{code_list(forbidden_modules())}.\n"
    )


def forbidden_modules() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (c for c in contracts["contracts"] if c["name"] == CONTRACT)
    modules: list[str] = contract["forbidden_modules"]
    return modules


def plugin_rows() -> list[tuple[str, ...]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    references = project["entry-points"]["scraper.plugins"]
    return [plugin_row(resolve(reference)) for _, reference in sorted(references.items())]


def plugin_row(plugin: Plugin) -> tuple[str, ...]:
    found = FoundPlugin(plugin.name, plugin, "", EntryPoint("", "", ""))
    return (
        f"`{plugin.name}`",
        plain(plugin.summary),
        code_list(f"scraper {command}" for command in sorted(plugin.commands)),
        code_list(keys_of(found)),
        code_list(settings_of(found)),
        code_list(what.strip("'") for what in dict.fromkeys(plugin.requires.values())),
    )


def code_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
