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
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from scraper.errors import ConfigError, DefinitionError
from scraper.registry import plugin_hooks
from scraper.rules.urls import is_private
from scraper.sites import functions
from scraper.sites.definition import Site
from scraper.sites.grammar import scalars, yaml12
from scraper.sites.problems import Place, Problem, explain_problems

FILE_MAX_BYTES = 1_000_000
SUFFIXES = (".yaml", ".yml")
# The file whose keys count for each site of its folder that does not write them.
DEFAULTS = "defaults.yaml"
OWN_KEYS = ("name", "title", "start", "sitemap", "hosts", "listing", "product")


class Written(NamedTuple):
    """The keys of a file as written, and the place of each."""

    keys: dict[str, Any]
    places: dict[yaml12.Path, Place]
    problems: list[Problem]

    def find_place(self, key: str, path: Path) -> Place:
        return self.places.get(tuple(key.split(".")), Place(path, 1))


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
    if path.stem == Path(DEFAULTS).stem:
        raise DefinitionError(
            [f"{path}:1: holds what all sites share, and defines no site (fix: use another name)"]
        )
    written = _parse_definition(text, path)
    problems = list(written.problems)
    data = {"name": _name_from_path(path), **written.keys}
    site = None
    try:
        site = Site.model_validate(data)
    except ValidationError as error:
        problems += explain_problems(error, data, written.places, path)
    if site is not None and site.enabled and allowed is not None:
        problems += [
            (written.find_place(key, path), f"{key}: {reason}")
            for key, name in functions.list_functions(site).items()
            if (reason := functions.explain_refusal(name, allowed)) is not None
        ]
    if problems or site is None:
        raise DefinitionError([f"{place}: {message}" for place, message in sorted(problems)])
    return site


def refuse_defaults(name: str) -> None:
    """Raises `ConfigError` for a name of a site whose file would be the defaults."""
    if f"{name}.yaml" == DEFAULTS:
        raise ConfigError(f"{DEFAULTS} holds what all sites share (fix: use another name)")


def read_definition(path: Path) -> Written:
    """Returns the keys of a definition and of its defaults, as they are written."""
    return _parse_definition(_read_text(path), path)


def list_definition_files(folder: Path | str) -> list[Path]:
    """Returns the definition files of a folder, sorted, or [] if the folder does not exist."""
    return list_files([folder]) if Path(folder).is_dir() else []


def list_files(paths: Iterable[Path | str]) -> list[Path]:
    """Returns the files, and the definition files of the folders. Defaults stand for their folder:
    they count in all of its definitions."""
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        folder = path.parent if path.name == DEFAULTS else path
        if not folder.is_dir():
            files[path] = None
            continue
        in_folder = (file for file in folder.iterdir() if file.suffix in SUFFIXES)
        good = (file for file in in_folder if file.name[0] not in "._" and file.name != DEFAULTS)
        files.update(dict.fromkeys(sorted(good)))
    return list(files)


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
    sites, problems = _load_files(list_files([folder]))
    if problems:
        raise DefinitionError(problems)
    return sorted((site for _, site in sites), key=lambda site: site.name)


def check_files(paths: Iterable[Path | str]) -> list[str]:
    """Returns the problems of files and folders, including names that are used twice."""
    try:
        files = list_files(paths)
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
    for path in list_files(paths):
        try:
            site = load_file(path)
        except DefinitionError:
            # `check_files` reports these problems.
            continue
        written = read_definition(path)
        for key, message in check(site):
            problems.append(f"{written.find_place(key, path)}: {key}: {message}")
    return list(dict.fromkeys(problems))


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


_UNCOUNTED = (
    "nothing says how many products the shop has, so a crawl that misses some looks complete: "
    "`sitemap: {urls: …, follow: false}` counts them, as does `listing.pages`"
)


def _counts_products(site: Site) -> bool:
    """Returns whether a sitemap, a list or an interface says how many products there are."""
    pages = site.listing.pages if site.listing is not None else None
    counted = site.sitemap is not None or (pages is not None and pages.counted)
    return counted or any(hooks.adapter(site) for hooks in plugin_hooks().values())


def find_warnings(site: Site) -> list[str]:
    """Returns a sentence for each setting that is valid but rarely intended."""
    sentences, fields = [], site.product.all_fields
    if site.product.function is None and not site.product.required:
        sentences.append(
            "no field is `required`: a page of another kind may be stored as a product with empty "
            "fields; set `required: true` on the fields that every product has"
        )
    prices = [name for name in site.product.required if fields[name].type == "price"]
    if prices:
        sentences.append(
            f"{prices[0]} is `required`: a product that shows no price, as when it is sold out, "
            "keeps its old price and availability; only what every product has should be required"
        )
    if not _counts_products(site):
        sentences.append(_UNCOUNTED)
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
    # Sites share the problems of their defaults.
    return sites, list(dict.fromkeys(problems))


def _parse_definition(text: str, path: Path) -> Written:
    """Returns a definition's keys, and the defaults of its folder that it does not write."""
    own = _parse_mapping(text, path)
    if not own.keys:
        raise DefinitionError(
            [f"{path}:1: the file is empty (fix: start with `name: {_name_from_path(path)}`)"]
        )
    defaults = path.with_name(DEFAULTS)
    if not defaults.exists():
        return own
    shared = _parse_mapping(_read_text(defaults), defaults)
    misplaced = [key for key in OWN_KEYS if shared.keys.pop(key, None) is not None]
    problems = [
        (shared.places[(key,)], f"{key}: differs from site to site (fix: move it to their files)")
        for key in misplaced
    ]
    return Written(
        shared.keys | own.keys,
        shared.places | own.places,
        [*shared.problems, *problems, *own.problems],
    )


def _parse_mapping(text: str, path: Path) -> Written:
    try:
        parsed = yaml12.parse(text)
    except yaml.YAMLError as error:
        line, message = yaml12.explain_error(error, text)
        raise DefinitionError([f"{path}:{line}: {message}"]) from None
    except RecursionError:
        raise DefinitionError(
            [f"{path}:1: nested too deeply (fix: see docs/how-to/definitions.md)"]
        ) from None
    if not isinstance(parsed.data, dict | None):
        raise DefinitionError([f"{path}:1: the file is not a mapping (fix: write `key: value`)"])
    return Written(
        parsed.data or {},
        {key: Place(path, line) for key, line in parsed.lines.items()},
        [(Place(path, line), message) for line, message in parsed.problems],
    )


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
