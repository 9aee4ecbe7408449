"""What commands that read pages share: the definition that is meant, and pages that cannot be
read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scraper.errors import FetchError, NotFoundError, ScraperError, did_you_mean
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site


def definition_file(folder: Path, word: str) -> Path:
    """The file that is meant: a path, or the name of a site in `folder`."""
    path = Path(word)
    if path.is_file() or path.suffix in loader.SUFFIXES or len(path.parts) > 1:
        return path
    files = {file.stem: file for file in loader.list_definition_files(folder)}
    if word not in files:
        nearest = did_you_mean(word, files)
        raise NotFoundError(f"{word!r} is no file, and no definition in {folder}/{nearest}")
    return files[word]


def load_definition(settings: Settings, word: str) -> Site:
    """The definition that is meant, with its functions."""
    path = definition_file(settings.sites_dir, word)
    return loader.load_file(path, settings.site_function_modules)


@contextmanager
def page_errors(where: str) -> Iterator[None]:
    """A page that cannot be read is what a command fails with. `where`: what was read, if the error
    has no address."""
    try:
        yield
    except FetchError as error:
        raise ScraperError(f"{error.url or where}: {error.outcome}: {error}") from None
