"""The pages that other plug-ins add to the Crawls tab, as `Plugin.tab_pages` names them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import sqlalchemy as sa

from scraper.plugins.flower.access.users import Role
from scraper.registry import active_plugins

Act = Callable[[sa.Engine, Mapping[str, Any], str], str | dict[str, Any]]
# The body of an action, unless the page has a BODY_MAX_BYTES of its own.
BODY_MAX_BYTES = 4096


class TabPage(Protocol):
    """A module with one page.

    It may also have: `QUESTIONS`, actions that change nothing; `OPERATED`, the actions for which
    the role `operate` is enough; `READ_ROLE`, the role that may see the page, if it is not `read`;
    `MORE_SCRIPTS`, paths of scripts that run before SCRIPT; `ANSWERS`, a file of JSON Schemas;
    `SECRETS`, values in bodies that are never logged; `BODY_MAX_BYTES`, the limit of a body.
    """

    # What the menu calls the page.
    TITLE: str
    # The JavaScript that fills the element `own-page`. It hands two functions to `start`, which it
    # takes from `crawlsTab`: one returns the URL to read, and the other shows what `read` returned.
    # `scraper/plugins/prices/drops.js` is an example.
    SCRIPT: Path
    # By name, functions that take the engine, the body of the request as a mapping and the user,
    # and return a sentence, or a mapping with the sentence as `message`. Calling them takes the
    # role `edit`.
    ACTIONS: Mapping[str, Act]

    def read(self, connection: sa.Connection, query: Mapping[str, str], /) -> dict[str, Any]:
        """Returns what the script draws."""


@lru_cache(maxsize=1)
def tab_pages() -> Mapping[str, TabPage]:
    """Returns the pages by name."""
    return {
        name: cast(TabPage, import_module(module))
        for plugin in active_plugins()
        for name, module in plugin.tab_pages.items()
    }


def questions_of(page: TabPage) -> Mapping[str, Act]:
    """Returns the actions that change nothing, of a page that has QUESTIONS."""
    questions: Mapping[str, Act] = getattr(page, "QUESTIONS", {})
    return questions


def all_actions(page: TabPage) -> Mapping[str, Act]:
    """Returns the actions of a page, questions included."""
    return {**page.ACTIONS, **questions_of(page)}


def operated_actions(page: TabPage) -> Collection[str]:
    """Returns the actions for which the role `operate` is enough: the page's OPERATED."""
    actions: Collection[str] = getattr(page, "OPERATED", ())
    return actions


def read_role(page: TabPage) -> Role:
    """Returns the role that may see the page: its READ_ROLE, or any."""
    role: Role = getattr(page, "READ_ROLE", "read")
    return role


def scripts_of(page: TabPage) -> list[Path]:
    """Returns the scripts of a page in their order: its MORE_SCRIPTS, if it has any, first."""
    return [*getattr(page, "MORE_SCRIPTS", ()), page.SCRIPT]


def answers_of(page: TabPage) -> Path | None:
    """Returns the file of JSON Schemas of a page's answers: its ANSWERS, if it has any."""
    file: Path | None = getattr(page, "ANSWERS", None)
    return file


def secret_values(page: TabPage) -> Collection[str]:
    """Returns the names of values in bodies that are never logged: the page's SECRETS."""
    names: Collection[str] = getattr(page, "SECRETS", ())
    return names


def body_limit(page: TabPage) -> int:
    """Returns the largest body of the page's actions, in bytes."""
    return int(getattr(page, "BODY_MAX_BYTES", BODY_MAX_BYTES))
