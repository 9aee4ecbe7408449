"""`scraper shell`: a Python prompt on a page, to try selectors. Needs no servers."""

from __future__ import annotations

import asyncio
import code
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import click
from pydantic import ValidationError

from scraper.cli.common.definitions import load_definition, page_errors
from scraper.cli.common.shared import complete_site, load_settings
from scraper.cli.common.tables import one_line
from scraper.domain import Fetched, Kind
from scraper.errors import FetchError
from scraper.extract.document import Document
from scraper.plugins.author.commands.trying import NOWHERE, definition_of
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.trial import match_source, parse_source
from scraper.plugins.author.supervision import record_page, run_apart
from scraper.sites import loader
from scraper.sites.definition import Site

BANNER = """\
page            the page: page.url, .status, .headers, .body, .text
css("h1")       its matches, as a definition reads them; also xpath("//h1")
jsonld          its JSON-LD objects
fetch("/next")  reads another page; obeys robots.txt and the rate
Ctrl-D ends the shell; nothing is stored."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """`page` at the prompt."""

    url: str
    status: int
    headers: Any
    body: bytes
    text: str

    def __repr__(self) -> str:
        return f"<{self.status} {self.url!r}, {len(self.body):,} bytes>"


class Prompt:
    """The names at the prompt, for the page that was read last."""

    def __init__(self, reader: PoliteReader, runner: asyncio.Runner) -> None:
        self._reader, self._runner = reader, runner
        self.names: dict[str, Any] = {"css": self.css, "xpath": self.xpath, "fetch": self.fetch}

    def show_page(self, page: Fetched) -> None:
        self._page = page
        record_page(page.url)
        document = Document(page, page.url)
        self.names["page"] = ShownPage(
            page.url, page.status, page.headers, page.body, document.decoded.text
        )
        self.names["jsonld"] = document.jsonld

    def read_page(self, url: str) -> None:
        self.show_page(self._runner.run(self._reader.read(url, Kind.PRODUCT)))

    def fetch(self, url: str) -> ShownPage | None:
        """Reads another page. If that fails, prints why and stays on this page."""
        try:
            self.read_page(urljoin(Document(self._page, self._page.url).base, url))
        except FetchError as error:
            click.echo(f"{error.outcome}: {one_line(str(error))}", err=True)
            return None
        shown: ShownPage = self.names["page"]
        return shown

    def css(self, selector: str) -> list[str]:
        return self._match_source(selector)

    def xpath(self, path: str) -> list[str]:
        # Without the prefix, a path such as `descendant::a` would be read as CSS.
        return self._match_source(f"xpath:{path}")

    def _match_source(self, text: str) -> list[str]:
        record_page(self._page.url)
        try:
            source = parse_source(text)
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"]) from None
        return list(match_source(source, self._page).matches)


@click.command()
@click.argument("target", metavar="SITE|FILE|URL", shell_complete=complete_site)
@run_apart
def shell(target: str) -> None:
    """Open a Python prompt on a page: URL, FILE, or one of SITE.

    The prompt has `page`, `css`, `xpath`, `jsonld` and `fetch`. Obeys robots.txt and the rate;
    needs no servers; stores nothing.
    """
    settings, saved = load_settings(), Path(target)
    site: Site
    url: str | None = None
    if target.startswith(("http://", "https://")):
        url, site = target, definition_of(settings, None, target)
    elif saved.is_file() and saved.suffix not in loader.SUFFIXES:
        site = definition_of(settings, None, NOWHERE)
    else:
        site = load_definition(settings, target)
        url = site.starts[0]
    with asyncio.Runner() as runner, page_errors(site.name):
        reader = runner.run(_open_reader(site))
        try:
            prompt = Prompt(reader, runner)
            if url is None:
                prompt.show_page(Fetched(NOWHERE, 200, {}, saved.read_bytes()))
            else:
                prompt.read_page(url)
            with suppress(ImportError):
                # With readline, lines can be edited and recalled.
                import_module("readline")
            click.echo(f"{prompt.names['page']!r}", err=True)
            code.interact(BANNER, local=prompt.names, exitmsg="")
        finally:
            runner.run(reader.__aexit__())


async def _open_reader(site: Site) -> PoliteReader:
    return PoliteReader(site, load_settings())
