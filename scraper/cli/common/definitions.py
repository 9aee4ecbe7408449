"""Helpers of commands that read pages: finding a site's definition, and reporting a page that
cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scraper.errors import FetchError, NotFoundError, ScraperError, did_you_mean
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site


def definition_file(folder: Path, word: str) -> Path:
    """Returns the definition file that `word` names: a path, or a site's name in `folder`."""
    path = Path(word)
    if path.is_file() or path.suffix in loader.SUFFIXES or len(path.parts) > 1:
        return path
    files = {file.stem: file for file in loader.list_definition_files(folder)}
    if word not in files:
        nearest = did_you_mean(word, files)
        raise NotFoundError(f"{word!r} is neither a file nor a definition in {folder}/{nearest}")
    return files[word]


def load_definition(settings: Settings, word: str) -> Site:
    """Loads the definition that `word` names, with its functions."""
    path = definition_file(settings.sites_dir, word)
    return loader.load_file(path, settings.site_function_modules)


@contextmanager
def page_errors(where: str) -> Iterator[None]:
    """Turns a page that cannot be read into the command's error. `where` names what was read if the
    error has no URL."""
    try:
        yield
    except FetchError as error:
        raise ScraperError(f"{error.url or where}: {error.outcome}: {error}") from None
