"""Loads `Site`s from YAML files, and reports all problems of a file with their lines and fixes.

This is the only module of `scraper.sites` that reads files. It does not import user code (see
`scraper.sites.functions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import yaml
from pydantic import ValidationError

from scraper.errors import DefinitionError
from scraper.registry import plugin_hooks
from scraper.rules.urls import is_private
from scraper.sites import functions
from scraper.sites.definition import Site
from scraper.sites.grammar import scalars, yaml12
from scraper.sites.problems import explain_problems

FILE_MAX_BYTES = 1_000_000
SUFFIXES = (".yaml", ".yml")


def load_file(path: Path | str, allowed: Collection[str] | None = None) -> Site:
    """Returns the site that a file defines. Raises `DefinitionError` with a line for each problem:
    `file:line: key: message (fix: …)`. `allowed`: the modules whose functions it may name; with
    None this is checked only on import."""
    path = Path(path)
    return load_text(_read_text(path), path, allowed)


def load_text(text: str, path: Path | str, allowed: Collection[str] | None = None) -> Site:
    """Returns the site that YAML text defines. `path` is used in messages, and as the name of a
    site without `name:`."""
    path = Path(path)
    try:
        parsed = yaml12.parse(text)
    except yaml.YAMLError as error:
        line, message = yaml12.explain_error(error, text)
        raise DefinitionError([f"{path}:{line}: {message}"]) from None
    except RecursionError:
        raise DefinitionError(
            [f"{path}:1: nested too deeply (fix: see docs/how-to/definitions.md)"]
        ) from None
    problems = list(parsed.problems)
    if not isinstance(parsed.data, dict):
        fault = "is empty" if parsed.data is None else "is not a mapping"
        raise DefinitionError(
            [f"{path}:1: the file {fault} (fix: start with `name: {_name_from_path(path)}`)"]
        )
    data = {"name": _name_from_path(path), **parsed.data}
    site = None
    try:
        site = Site.model_validate(data)
    except ValidationError as error:
        problems += explain_problems(error, data, parsed.lines)
    if site is not None and site.enabled and allowed is not None:
        problems += [
            (parsed.lines.get(tuple(key.split(".")), 1), f"{key}: {reason}")
            for key, name in functions.list_functions(site).items()
            if (reason := functions.explain_refusal(name, allowed)) is not None
        ]
    if problems or site is None:
        raise DefinitionError([f"{path}:{line}: {message}" for line, message in sorted(problems)])
    return site


def list_definition_files(folder: Path | str) -> list[Path]:
    """Returns the definition files of a folder, sorted, or [] if the folder does not exist."""
    return _list_files([folder]) if Path(folder).is_dir() else []


def guess_names(file: Path) -> list[str]:
    """Returns the possible site names of an invalid file: from its file name, and from `name:`
    lines."""
    try:
        text = file.read_text("utf-8-sig", errors="replace")
    except OSError:
        text = ""
    named = re.findall(r"""^name\s*:\s*["']?([a-z0-9][a-z0-9_-]*)""", text, re.MULTILINE)
    return [_name_from_path(file), *named]


def load_folder(folder: Path | str) -> list[Site]:
    """Returns the sites of a folder, sorted by name. Raises `DefinitionError` with the problems of
    all files."""
    sites, problems = _load_files(_list_files([folder]))
    if problems:
        raise DefinitionError(problems)
    return sorted((site for _, site in sites), key=lambda site: site.name)


def check_files(paths: Iterable[Path | str]) -> list[str]:
    """Returns the problems of files and folders, including names that are used twice."""
    try:
        files = _list_files(paths)
    except DefinitionError as error:
        return error.problems
    return _load_files(files)[1]


def check_functions(paths: Iterable[Path | str], allowed: Collection[str]) -> list[str]:
    """Imports the functions of valid definitions from `allowed` modules. Returns a line for each
    that fails."""
    return check_sites(paths, partial(functions.check_functions, allowed=allowed))


def check_sites(
    paths: Iterable[Path | str], check: Callable[[Site], list[tuple[str, str]]]
) -> list[str]:
    """Runs `check`, which returns (key, sentence), on valid definitions. Returns a line for each
    problem."""
    problems = []
    for path in _list_files(paths):
        try:
            site = load_file(path)
        except DefinitionError:
            # `check_files` reports these problems.
            continue
        lines = yaml12.parse(_read_text(path)).lines
        for key, message in check(site):
            problems.append(f"{path}:{lines.get(tuple(key.split('.')), 1)}: {key}: {message}")
    return problems


def find_skipped_crawls(site: Site) -> list[tuple[str, str]]:
    """Returns (key, sentence) if a definition's `revisit` makes scheduled crawls skip products that
    the crawl before has read. A crawl comes to a product a little earlier or later than the last
    one did, so an equal interval skips every second time. If a plug-in remembers links instead of
    pages, `revisit` says for how long."""
    keeps_pages = all(hooks.keeps_frontier(site) for hooks in plugin_hooks().values())
    if site.schedule is None or not site.revisit_s or not keeps_pages:
        return []
    gap = scalars.find_shortest_gap(site.schedule)
    if gap.total_seconds() > site.revisit_s:
        return []
    sentence = (
        f"crawls are {_format_duration(gap)} apart, so with revisit {site.revisit} most of them "
        f"read no price (fix: revisit: {_format_duration(gap / 2)}, or leave `revisit` out: every "
        "crawl reads every product)"
    )
    return [("revisit", sentence)]


def find_warnings(site: Site) -> list[str]:
    """Returns a sentence for each setting that is valid but rarely intended."""
    sentences = []
    if site.product.function is None and not site.product.required:
        sentences.append(
            "no field is `required`: a page of another kind may be stored as a product with empty "
            "fields; set `required: true` on the fields that every product has"
        )
    own = [link for link in site.start if is_private(link)] if not site.allow_private else []
    if own:
        sentences.append(
            f"{own[0]} is in your own network and will not be fetched; set `allow_private: true`"
        )
    if isinstance(site.allow_private, tuple):
        sentences.append(
            f"allow_private: links of this site may reach {', '.join(site.allow_private)}, "
            "whatever their host"
        )
    if not site.robots:
        sentences.append("robots is false: robots.txt is ignored")
    if site.rate_per_s is None:
        sentences.append(
            "rate is unlimited: only `concurrency` limits the load on the shop's server"
        )
    items = site.product.items
    by_page = site.product.function is None and (items is None or items.optional)
    if by_page and site.product.id is None:
        sentences.append(
            "no product.id: a product is identified by its URL; if the URL changes, it is a new "
            "product"
        )
    return sentences


def _load_files(files: Sequence[Path]) -> tuple[list[tuple[Path, Site]], list[str]]:
    sites: list[tuple[Path, Site]] = []
    problems: list[str] = []
    names: dict[str, Path] = {}
    for path in files:
        try:
            site = load_file(path)
        except DefinitionError as error:
            problems += error.problems
            continue
        if site.name in names:
            line = yaml12.parse(_read_text(path)).lines.get(("name",), 1)
            problems.append(
                f"{path}:{line}: name: {site.name!r} is also the name of {names[site.name]} "
                f"(fix: give each its own)"
            )
            continue
        names[site.name] = path
        sites.append((path, site))
    return sites, problems


def _list_files(paths: Iterable[Path | str]) -> list[Path]:
    files: dict[Path, None] = {}
    for given in map(Path, paths):
        if given.is_dir():
            in_folder = sorted(
                path
                for path in given.iterdir()
                if path.suffix in SUFFIXES and path.name[0] not in "._"
            )
            files.update(dict.fromkeys(in_folder))
        else:
            files[given] = None
    return list(files)


def _read_text(path: Path) -> str:
    try:
        if path.is_file() and path.stat().st_size > FILE_MAX_BYTES:
            raise DefinitionError([f"{path}:1: larger than 1 MB (fix: is it a site definition?)"])
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DefinitionError(
            [f"{path}:1: no such file (fix: check the path and SCRAPER_SITES)"]
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DefinitionError(
            [f"{path}:1: cannot be read: {reason.lower()} (fix: check its permissions)"]
        ) from None
    if b"\x00" in raw:
        raise DefinitionError([f"{path}:1: not a text file (fix: save it as UTF-8)"])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DefinitionError([f"{path}:{line}: not UTF-8 (fix: save the file as UTF-8)"]) from None


def _name_from_path(path: Path) -> str:
    return path.stem.lower().replace(" ", "-").replace(".", "-")


def _format_duration(gap: timedelta) -> str:
    minutes = max(1, int(gap.total_seconds() // 60))
    for unit, size in (("d", 1440), ("h", 60)):
        if minutes % size == 0:
            return f"{minutes // size}{unit}"
    return f"{minutes}m"
