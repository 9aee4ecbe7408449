"""Accepting or rejecting a crawl by hand, from the command line or from its page in the tab."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from scraper.errors import ScraperError
from scraper.infra.database import run_transaction
from scraper.results import held_products, held_values, rejection
from scraper.results.judgement import crawl_quality
from scraper.results.rejection import Rejection


def accept_crawl(
    engine: sa.Engine, crawl_id: int, fields: Collection[str] | None = None, *, dry: bool = False
) -> int:
    """Accepts a crawl, or certain fields. Returns how many held values and new products were
    released, or would be (`dry`). Raises `ScraperError` if the crawl is not judged, or was accepted
    before."""

    def release_held(connection: sa.Connection) -> int | None:
        if not crawl_quality.lock_judged(connection, crawl_id):
            return None
        held = held_values.count_held(connection, crawl_id, fields)
        if fields is None:
            held += held_products.count_held(connection, crawl_id)
        if dry:
            return held
        if fields is None:
            return held if crawl_quality.accept_crawl(connection, crawl_id) else None
        held_values.accept_values(connection, crawl_id, fields)
        held_values.release_values(connection, crawl_id)
        return held

    held = run_transaction(engine, release_held)
    if held is None:
        raise ScraperError(f"crawl {crawl_id} is not judged yet, or was accepted before")
    return held


def reject_crawl(
    engine: sa.Engine, crawl_id: int, fields: Collection[str] | None = None, *, dry: bool = False
) -> Rejection:
    """Takes back what a crawl wrote. Raises `ScraperError` if it is not judged, or was rejected
    before."""
    outcome = run_transaction(
        engine, lambda connection: rejection.reject_crawl(connection, crawl_id, fields, dry=dry)
    )
    if outcome is None:
        raise ScraperError(f"crawl {crawl_id} is not judged yet, or was rejected before")
    return outcome


def accepted_phrase(crawl_id: int, held: int, *, dry: bool) -> str:
    done = "would be" if dry else "are"
    return f"crawl {crawl_id}: {held:,} held values and products {done} released"


def rejected_phrase(crawl_id: int, outcome: Rejection, *, dry: bool) -> str:
    return (
        f"crawl {crawl_id}: {'would be taken' if dry else 'taken'} back: values of "
        f"{outcome.products:,} products, {outcome.new:,} new products, {outcome.delisted:,} "
        f"delistings; {outcome.held:,} held values go"
    )
