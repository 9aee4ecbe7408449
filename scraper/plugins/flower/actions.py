"""The actions of the buttons on a crawl's and a site's page. They do the same as the command line,
and refuse with the same messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from scraper.actions import crawls, judgements, overrides
from scraper.actions.page_replay import PageReplay
from scraper.domain import Outcome
from scraper.errors import ScraperError
from scraper.registry import require_service
from scraper.settings import Settings
from scraper.views import crawl_progress as progress

Action = Callable[[sa.Engine, Settings, int, Mapping[str, Any], str], str]
SiteAction = Callable[[sa.Engine, Settings, str], str]


class BadRequestError(ScraperError):
    """The request's body does not fit the action."""

    exit_code = 2


def stop_crawl(
    engine: sa.Engine, settings: Settings, crawl_id: int, body: Mapping[str, Any], by: str
) -> str:
    """Stops the crawl and drops its open pages."""
    overrides.stop_crawl(engine, crawl_id, f"stopped by {by} in Flower")
    return f"Crawl {crawl_id} is stopped."


def pause_site(engine: sa.Engine, settings: Settings, site: str) -> str:
    """Pauses the site."""
    changed = overrides.set_paused(engine, site, paused=True)
    return f"{site} is paused." if changed else f"{site} was paused already."


def resume_site(engine: sa.Engine, settings: Settings, site: str) -> str:
    """Resumes the site."""
    changed = overrides.set_paused(engine, site, paused=False)
    return f"{site} is resumed." if changed else f"{site} was not paused."


def open_crawl(engine: sa.Engine, settings: Settings, site: str) -> str:
    """Opens a crawl of the site."""
    opened = crawls.open_site(engine, settings, site, refetch=False)
    event = "was already running" if opened.already_running else "is opened"
    return f"Crawl {opened.crawl_id} of {site} {event}."


def _for_its_site(act: SiteAction) -> Action:
    def of_crawl(
        engine: sa.Engine, settings: Settings, crawl_id: int, body: Mapping[str, Any], by: str
    ) -> str:
        return act(engine, settings, progress.read_one(engine, crawl_id).site)

    return of_crawl


def replay_pages(
    engine: sa.Engine, settings: Settings, crawl_id: int, body: Mapping[str, Any], by: str
) -> str:
    """Replays dead and invalid pages of the crawl: one (`page`, an id), those with a `reason` (an
    outcome), or all."""
    page, reason = pages_to_replay(body)
    site = progress.read_one(engine, crawl_id).site
    replay = require_service(PageReplay, "replaying pages")  # type: ignore[type-abstract]
    pages, into = replay(engine, settings, crawl_id, site, page=page, reason=reason)
    return f"{pages:,} page{'s are' if pages > 1 else ' is'} tried again, in crawl {into}."


def pages_to_replay(body: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """Returns a page's id or a reason, or neither. Raises `BadRequestError` for any other body."""
    page, reason = body.get("page"), body.get("reason")
    if set(body) - {"page", "reason"} or (page is not None and reason is not None):
        raise BadRequestError('the body is {"page": ID}, {"reason": OUTCOME}, or {} for all')
    if page is not None and (not isinstance(page, int) or isinstance(page, bool)):
        raise BadRequestError("page is a page's id, a number")
    if reason is not None and reason not in [outcome.value for outcome in Outcome]:
        raise BadRequestError("reason is an outcome, such as not_extracted")
    return page, reason


def accept_crawl(
    engine: sa.Engine, settings: Settings, crawl_id: int, body: Mapping[str, Any], by: str
) -> str:
    """Accepts the crawl; with `dry`, says what that would do."""
    dry = _is_dry(body)
    progress.read_one(engine, crawl_id)
    held = judgements.accept_crawl(engine, crawl_id, dry=dry)
    return judgements.accepted_phrase(crawl_id, held, dry=dry)


def reject_crawl(
    engine: sa.Engine, settings: Settings, crawl_id: int, body: Mapping[str, Any], by: str
) -> str:
    """Rejects the crawl; with `dry`, says what that would do."""
    dry = _is_dry(body)
    progress.read_one(engine, crawl_id)
    outcome = judgements.reject_crawl(engine, crawl_id, dry=dry)
    return judgements.rejected_phrase(crawl_id, outcome, dry=dry)


def _is_dry(body: Mapping[str, Any]) -> bool:
    if set(body) - {"dry"} or not isinstance(body.get("dry", False), bool):
        raise BadRequestError('the body is {"dry": true}, or {}')
    return bool(body.get("dry"))


OF_SITES: Mapping[str, SiteAction] = {
    "pause": pause_site,
    "resume": resume_site,
    "crawl": open_crawl,
}
ACTIONS: Mapping[str, Action] = {
    "stop": stop_crawl,
    **{name: _for_its_site(act) for name, act in OF_SITES.items()},
    "replay": replay_pages,
    "accept": accept_crawl,
    "reject": reject_crawl,
}
# The keys that the body of an action may have.
KEYS: Mapping[str, Mapping[str, type]] = {
    "replay": {"page": int, "reason": str},
    "accept": {"dry": bool},
    "reject": {"dry": bool},
}


def describe_action(name: str) -> str:
    """Returns the docstring of an action."""
    return (OF_SITES.get(name) or ACTIONS[name]).__doc__ or ""
