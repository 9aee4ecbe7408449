"""Judges a crawl's data against recent crawls, once, when the crawl has ended, and releases the
values that wait for the judgement.

`judge_data` runs in the transaction that ends the crawl, so that delisting, which depends on it,
does too; a tick judges crawls that end otherwise (stopped, stalled). A person, or the definition,
may accept a suspect crawl as the new usual: its held values are released, and later crawls are no
longer compared with anything before it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from scraper.domain import CrawlStatus
from scraper.frontier.crawls import COLUMNS, PARTIAL, REPLAY
from scraper.infra.database import dumps
from scraper.registry import plugin_hooks
from scraper.results import held_products, held_values
from scraper.results.judgement import earlier_crawls
from scraper.results.judgement.crawl_judgement import CrawlJudgement
from scraper.results.judgement.earlier_crawls import SuspectCrawl
from scraper.rules.quality import Reason
from scraper.sites.definition import Site

# In any order: crawls that cannot be judged must not keep others waiting.
UNJUDGED = sa.text("""
SELECT id FROM crawls WHERE judged_at IS NULL AND status IN ('completed', 'stopped', 'failed')
 ORDER BY random() LIMIT 20
""")

JUDGED = sa.text("""
UPDATE crawls SET judged_at = now(), suspect = :suspect, reasons = CAST(:reasons AS jsonb)
 WHERE id = :id
""")

ADD_REASON = sa.text("""
UPDATE crawls SET suspect = true, accepted_at = NULL,
       reasons = coalesce(reasons, '[]') || CAST(:reasons AS jsonb) WHERE id = :id
""")

LOCK_JUDGED = sa.text("SELECT FROM crawls WHERE id = :id AND judged_at IS NOT NULL FOR UPDATE")

# Empty listings of an accepted crawl are believed.
EMPTY_LISTINGS = sa.text("""
UPDATE pages SET last_item_count = 1
 WHERE site_id = (SELECT site_id FROM crawls WHERE id = :id) AND crawl_id = :id
   AND kind <> 'product' AND status = 'invalid'
""")

ACCEPT = sa.text("""
UPDATE crawls SET suspect = false, accepted_at = now()
 WHERE id = :id AND judged_at IS NOT NULL AND accepted_at IS NULL
RETURNING site_id
""")


def unjudged_crawls(connection: sa.Connection) -> list[int]:
    """Returns crawls that have ended without a judgement: stopped or stalled ones, normally
    none."""
    return list(connection.execute(UNJUDGED).scalars())


def lock_unjudged(connection: sa.Connection, crawl_id: int) -> sa.Row[Any] | None:
    """Locks an ended crawl without a judgement. Returns None if another transaction has locked it,
    or it is judged."""
    query = sa.text(f"""
        SELECT {COLUMNS} FROM crawls WHERE id = :id AND judged_at IS NULL
               AND status IN ('completed', 'stopped', 'failed')
           FOR UPDATE SKIP LOCKED""")
    return connection.execute(query, {"id": crawl_id}).first()


def judge_data(
    connection: sa.Connection,
    crawl: sa.Row[Any],
    status: CrawlStatus,
    before: SuspectCrawl | None,
    unlisted: int = 0,
) -> bool:
    """Judges a crawl whose row is locked, and which ends with that status. Returns True if it is
    suspect. `before` is the previous crawl, if that was suspect; `unlisted` counts good pages that
    no listing has named."""
    try:
        site = Site.model_validate(crawl.definition)
    except ValidationError:
        # Another version stored the definition; the crawl must end all the same.
        _store_judgement(connection, crawl.id, False, [])
        _flag_if_bad(connection, crawl, status, suspect=False)
        return False
    judgement = CrawlJudgement(connection, crawl, site, before, unlisted)
    contrary = judgement.doubt_changes()
    ended = status in (CrawlStatus.COMPLETED, CrawlStatus.FAILED)
    whole = ended and crawl.trigger not in PARTIAL
    judgement.store_number(whole=whole)
    reasons = judgement.find_reasons(contrary, whole=whole)
    if whole and status is CrawlStatus.COMPLETED:
        for hooks in plugin_hooks().values():
            reasons += hooks.judge_crawl(connection, crawl, site, judgement.good)
    suspect = bool(reasons) and crawl.trigger != REPLAY
    _store_judgement(connection, crawl.id, suspect, [*reasons, *judgement.notices])
    judgement.keep_examples()
    judgement.store_fields(held_values.release_values(connection, crawl.id))
    wanted = site.quality.accept_after
    if suspect and earlier_crawls.have_same_reasons(connection, crawl, reasons, wanted):
        accept_crawl(connection, crawl.id)
        suspect = False
    _flag_if_bad(connection, crawl, status, suspect=suspect)
    return suspect


def _flag_if_bad(
    connection: sa.Connection, crawl: sa.Row[Any], status: CrawlStatus, *, suspect: bool
) -> None:
    """Flags a failed or suspect crawl. A person who stops or replays a crawl is watching it
    already."""
    failed = status is CrawlStatus.FAILED and crawl.trigger != REPLAY
    if failed or (suspect and status is not CrawlStatus.STOPPED):
        _flag_crawl(connection, crawl.id)


def _flag_crawl(connection: sa.Connection, crawl_id: int) -> None:
    for hooks in plugin_hooks().values():
        hooks.flag_crawl(connection, crawl_id)


def lock_judged(connection: sa.Connection, crawl_id: int) -> bool:
    """Locks a crawl that is judged. Returns False if it is not judged yet."""
    return connection.execute(LOCK_JUDGED, {"id": crawl_id}).first() is not None


def accept_crawl(connection: sa.Connection, crawl_id: int) -> bool:
    """Accepts a judged crawl as the new usual, and releases its held values. Returns False if it
    was accepted before, or is not judged."""
    row = connection.execute(ACCEPT, {"id": crawl_id}).first()
    if row is None:
        return False
    held_values.accept_values(connection, crawl_id)
    held_values.release_values(connection, crawl_id)
    held_products.accept_products(connection, crawl_id)
    connection.execute(EMPTY_LISTINGS, {"id": crawl_id})
    return True


def add_reason(connection: sa.Connection, crawl_id: int, reason: Reason) -> bool:
    """Makes a judged crawl suspect for one more reason, even an accepted one. Returns True: it is
    suspect."""
    connection.execute(ADD_REASON, {"id": crawl_id, "reasons": dumps([reason])})
    _flag_crawl(connection, crawl_id)
    return True


def _store_judgement(
    connection: sa.Connection, crawl_id: int, suspect: bool, reasons: list[Reason]
) -> None:
    values = {"id": crawl_id, "suspect": suspect, "reasons": dumps(reasons) if reasons else None}
    connection.execute(JUDGED, values)
