"""Selecting dead and invalid pages by hand, and replaying them by the newest definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from scraper.actions import named_definitions
from scraper.actions.page_replay import ReplayedPages
from scraper.errors import NotFoundError, ScraperError
from scraper.frontier import sites
from scraper.plugins.replay import replay, store
from scraper.plugins.replay.replay import ReplayResult
from scraper.plugins.replay.store import Selection
from scraper.process import servers
from scraper.rules.urls import clean, fingerprint
from scraper.runtime.send import send
from scraper.settings import Settings
from scraper.views.named_sites import require_site


def select_pages(
    connection: sa.Connection, site: str | None, pages: Sequence[str] = (), **filters: Any
) -> Selection:
    """Makes a selection from filters, a site's name, and pages' ids or URLs. Raises `NotFoundError`
    for a site or page that does not exist."""
    require_site(connection, site)
    ids = tuple(page_id(connection, page) for page in pages)
    return Selection(site=site, ids=ids or None, **filters)


def site_and_pages(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Splits arguments in any order: numbers and URLs are pages, and one word may be a site."""
    names = [word for word in words if not _names_page(word)]
    if len(names) > 1:
        raise NotFoundError(f"one site at a time, not {' and '.join(map(repr, names))}")
    return (names[0] if names else None), [word for word in words if _names_page(word)]


def _names_page(word: str) -> bool:
    return (word.isascii() and word.isdecimal()) or "://" in word


def page_id(connection: sa.Connection, word: str) -> int:
    """Returns the id of the page that an id or a URL names."""
    if not _names_page(word):
        raise NotFoundError(
            f"{word!r} is neither a page's id nor its URL; `scraper dead list` shows both"
        )
    if "://" not in word:
        page = store.read_page(connection, int(word))
        if page is None:
            raise NotFoundError(f"no page has the id {word}; `scraper dead list` shows ids")
        return int(page.id)
    pages = store.find_by_url(connection, [fingerprint(word), fingerprint(clean(word) or word)])
    if not pages:
        raise NotFoundError(
            f"no site has a page {word}; `scraper dead list` shows those that are dead"
        )
    if len(pages) > 1:
        ids = ", ".join(f"{page.id} ({page.site})" for page in pages)
        raise NotFoundError(f"several sites have this page: name it by its id, one of {ids}")
    return int(pages[0].id)


def replay_pages(engine: sa.Engine, settings: Settings, selection: Selection) -> list[ReplayResult]:
    """Stores the sites' newest definitions from sites/, replays pages, and sends the messages."""
    servers.require_broker(settings)
    names = {site.site for site in replay.preview_replay(engine, selection) if not site.refused}
    with engine.begin() as connection:
        sites.store_definitions(connection, named_definitions.definitions_in_files(settings, names))
    replayed, messages = replay.replay_pages(engine, selection)
    send(messages)
    return replayed


def raise_refusals(replayed: Sequence[ReplayResult]) -> None:
    """Raises `ScraperError` for the sites that refused."""
    refusals = [site.refused for site in replayed if site.refused]
    if refusals:
        raise ScraperError("\n".join(refusals))


def replay_crawl_pages(
    engine: sa.Engine,
    settings: Settings,
    crawl_id: int,
    site: str,
    *,
    page: int | None,
    reason: str | None,
) -> ReplayedPages:
    """Fills `PageReplay`."""
    ids = None if page is None else (page,)
    selection = Selection(site=site, reason=reason, ids=ids, crawl_id=crawl_id)
    replayed = replay_pages(engine, settings, selection)
    raise_refusals(replayed)
    if not replayed:
        raise NotFoundError("Nothing to replay: these pages are no longer dead or invalid.")
    (result,) = replayed
    assert result.crawl_id is not None
    return ReplayedPages(result.pages, result.crawl_id)
