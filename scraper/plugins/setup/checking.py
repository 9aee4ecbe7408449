"""Checks the text of a definition as `scraper sites check` does, before it is saved."""

from __future__ import annotations

import re
import tempfile
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from scraper.cli.setup.sites import find_problems
from scraper.errors import ConfigError
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.sites.grammar.scalars import SITE_NAME

NAME = re.compile(SITE_NAME).fullmatch
# Checking a text takes seconds of Flower's own time beyond these, which no definition reaches.
LINES_MAX, BRACKETS_MAX = 2000, 1500
# The time for brackets in brackets grows with the square of their depth.
DEPTH_MAX = 100


class Problem(NamedTuple):
    """What is wrong in a line."""

    line: int
    text: str


class Checked(NamedTuple):
    """`site`: None if there are problems."""

    site: Site | None
    problems: list[Problem]
    warnings: list[str]


def check_name(name: str) -> str:
    """Returns the name. Raises `ConfigError` for what is not a site's name, such as `../x`."""
    if not NAME(name):
        raise ConfigError(
            f"{name[:70]!r} is not a name (fix: small letters, digits, - and _, as in my-shop)"
        )
    loader.refuse_defaults(name)
    return name


def refuse_endless(text: str) -> None:
    """Raises `ConfigError` for a text that would take long to check."""
    if text.count("\n") > LINES_MAX or text.count("[") + text.count("{") > BRACKETS_MAX:
        raise ConfigError(
            f"the text has more than {LINES_MAX:,} lines or {BRACKETS_MAX:,} brackets "
            "(fix: one file per shop)"
        )
    depths = accumulate((sign in "[{") - (sign in "]}") for sign in text if sign in "[{]}")
    if max(depths, default=0) > DEPTH_MAX:
        raise ConfigError(f"the text has more than {DEPTH_MAX} brackets in each other")


def defined_name(file: Path) -> str:
    """Returns the name of the site that a file defines: its file's, unless it says another."""
    _, *named = loader.guess_names(file)
    return named[0] if named else file.stem


def find_file(folder: Path, name: str) -> Path:
    """Returns the file that defines a site, or the one that would."""
    files = sorted(loader.list_definition_files(folder), key=lambda file: file.stem != name)
    named = [file for file in files if name in loader.guess_names(file)]
    # A file of this name may define another site.
    defining = [file for file in named if defined_name(file) == name]
    return next(iter([*defining, *named]), folder / f"{name}.yaml")


def check_text(text: str, file: Path, settings: Settings, *, private: bool) -> Checked:
    """Checks a text that is to become `file`. `private`: whether it may reach the own network."""
    with tempfile.TemporaryDirectory(prefix="scraper-check-") as folder:
        draft, defaults = Path(folder) / file.name, file.with_name(loader.DEFAULTS)
        if defaults.is_file():
            draft.with_name(loader.DEFAULTS).symlink_to(defaults.absolute())
        try:
            draft.write_text(text, "utf-8", newline="")
        except UnicodeEncodeError:
            return Checked(None, [Problem(1, "has characters that no file can have")], [])
        # A wrong text is read only once.
        lines = loader.check_files([draft]) or find_problems([draft], settings)
        problems = [_parse_line(line, draft, file.parent) for line in lines]
        if problems:
            return Checked(None, problems, [])
        site = loader.load_file(draft)
    problems = [*_find_clashes(site, file)]
    if site.allow_private and not private:
        problems.append(Problem(1, "allow_private: is refused here (SCRAPER_SETUP_PRIVATE=0)"))
    return Checked(None if problems else site, problems, loader.find_warnings(site))


def _parse_line(text: str, draft: Path, folder: Path) -> Problem:
    """Returns the problem of a line of the draft, or of the defaults in the site's `folder`."""
    number, _, sentence = text.removeprefix(f"{draft}:").partition(": ")
    if number.isdigit():
        return Problem(int(number), sentence)
    return Problem(1, text.replace(f"{draft.parent}/", f"{folder}/"))


def _find_clashes(site: Site, file: Path) -> list[Problem]:
    """Returns the problem that another file defines the same site."""
    for other in loader.list_definition_files(file.parent):
        if other != file and site.name in loader.guess_names(other):
            return [Problem(1, f"name: {site.name!r} is also the name of {other}")]
    return []
