"""Judges a page's response: a block, a refusal, an unchanged page, or a page that is read, and
whether what it gave is trusted. Fetches and stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from itertools import islice
from typing import Any

from scraper.crawl.context import CrawlContext
from scraper.crawl.listing_verdict import judge_listing
from scraper.crawl.revisits import VisitPlan, plan_after_unchanged, plan_visit
from scraper.domain import Extracted, Fetched, FieldObservations, Kind, LeasedPage, Outcome
from scraper.extract import FunctionFailed, TooSlow
from scraper.extract.subprocess.pool import ExtractionPool
from scraper.http.held_bodies import HeldBody
from scraper.politeness.page_permits import PagePermits
from scraper.politeness.robots import RobotsRules, origin_of
from scraper.rules.blocks import judge_missing_fields
from scraper.rules.verdict import outcome_of_status, retry_after_s
from scraper.worker.batch import Attempt
from scraper.worker.observations import FieldObserver
from scraper.worker.page_result import EXCERPT_CHARS, cut_storable
from scraper.worker.tiers import Tier

# Only pages up to this size step together (`step_together`): a larger one fills the processor's
# caches itself.
SMALL_BYTES = 65_536
HEAD_FIELDS = 40
HEAD_CHARS = 200
_NOT_MODIFIED = 304


def step_together() -> Coroutine[Any, Any, None]:
    """Lets the loop's other pages come to the same step first. Responses are then taken, pages read
    and results settled several at a time, with the step's code and tables in the processor's
    caches, which saves a sixth of a small page's time."""
    return asyncio.sleep(0)


class ResponseJudge:
    """Judges one page's responses. Reads each response once, however often it is asked."""

    __slots__ = ("_body", "_context", "_extracted", "_fetched", "_observer", "_page", "_pool")

    def __init__(
        self,
        pool: ExtractionPool,
        observer: FieldObserver,
        page: LeasedPage,
        context: CrawlContext,
        body: HeldBody,
    ) -> None:
        self._pool = pool
        self._observer = observer
        self._page = page
        self._context = context
        self._body = body
        self._fetched: Fetched | None = None
        self._extracted: Extracted | TooSlow | FunctionFailed = Extracted()

    async def judge(self, fetched: Fetched, tier: Tier, permits: PagePermits) -> Attempt:
        """Returns what came of the page. Raises `FunctionFailed`."""
        page, context = self._page, self._context
        short = _short_circuit(page, fetched, context, tier, permits)
        if short is not None:
            return short
        try:
            extracted = await self.extract(fetched)
        except TooSlow as slow:
            return _failed_attempt(Outcome.TOO_SLOW, fetched, str(slow), began=permits.began)
        if permits.robots is not None and page.kind is Kind.LISTING:
            extracted = _drop_disallowed_links(extracted, permits.robots, fetched.url)
        # A page that was fetched through a proxy has asked other proxies already.
        other_way = permits.route is None and tier.above is not None and not tier.probe
        return self._judge_reading(fetched, extracted, other_way)

    def _judge_reading(self, fetched: Fetched, extracted: Extracted, other_way: bool) -> Attempt:
        """Returns what came of a page that was read. With `other_way` another level can try it."""
        page, context = self._page, self._context
        doubt = self._observer.find_doubt(page, fetched, extracted, context)
        observations, lacks, item_count, visit, block = None, None, None, None, None
        if page.kind is Kind.PRODUCT:
            observations = self._observer.observe_page(page, fetched, extracted, context)
            lacks = self._observer.sparse_reason(page, extracted, context) or None
        # A platform's interface says itself which page is its last, and that page may be empty.
        if not context.extractor.reads_interface(page.url):
            extracted, item_count, _ = judge_listing(page, extracted, context.retry.attempts_max)
        if doubt is None and extracted.complete:
            visit = plan_visit(page, fetched, extracted, context)
        else:
            block = judge_missing_fields(
                good_before=page.good_before or doubt is not None,
                suspected_before=page.blocked > 0,
                other_way=other_way,
            )
        if visit is not None:
            return _good_attempt(fetched, extracted, visit, observations, item_count, lacks)
        missing = extracted.problems_text if doubt is None else doubt.reason
        if block is not None:
            suspected = _failed_attempt(Outcome.BLOCKED, fetched, f"{block}: {missing}")
            return replace(suspected, sign=block.sign, suspicion=True)
        outcome = Outcome.NOT_EXTRACTED if doubt is None else Outcome.DOUBTFUL
        return replace(
            _failed_attempt(outcome, fetched, missing),
            observations=observations,
            last_item_count=item_count if doubt is None else doubt.last_item_count,
            doubted=doubt and doubt.content,
        )

    async def extract(self, fetched: Fetched) -> Extracted:
        """Returns what the response gives. Raises `TooSlow` and `FunctionFailed`."""
        if fetched is not self._fetched:
            page = self._page
            self._body.complete(len(fetched.body))
            if small := len(fetched.body) <= SMALL_BYTES:
                await step_together()
            try:
                self._extracted = await self._pool.read(
                    self._context.extractor,
                    page.kind,
                    fetched,
                    page.url,
                    page.depth,
                    page.last_content,
                )
            except (TooSlow, FunctionFailed) as error:
                self._extracted = error
            self._fetched = fetched
            if small:
                await step_together()
        if not isinstance(self._extracted, Extracted):
            raise self._extracted
        return self._extracted

    async def missing_reason(self, fetched: Fetched) -> str:
        """Returns what the response should have and lacks, so that another proxy can be asked; ""
        if nothing is missing."""
        try:
            extracted = judge_listing(self._page, await self.extract(fetched), tries=1).extracted
        except (TooSlow, FunctionFailed):
            return ""
        if not extracted.complete:
            return extracted.problems_text or "what is required"
        is_empty = not (extracted.links or extracted.products or extracted.partial)
        if is_empty and self._page.kind.discovers:
            return "no link"
        return self._observer.sparse_reason(
            self._page, extracted, self._context, other_proxies=True
        )


def _short_circuit(
    page: LeasedPage, fetched: Fetched, context: CrawlContext, tier: Tier, permits: PagePermits
) -> Attempt | None:
    """Returns the attempt for a response that needs no extraction (blocked, unchanged, refused),
    else None."""
    block = context.block_of(fetched)
    # Without a level above, a status that may mean a block is an ordinary refusal.
    if block is not None and (block.by != "status" or tier.above is not None):
        blocked = _failed_attempt(Outcome.BLOCKED, fetched, str(block), began=permits.began)
        return replace(blocked, sign=block.sign)
    retry_s = retry_after_s(fetched.headers, context.now())
    outcome = outcome_of_status(
        fetched.status, retry_after=retry_s is not None, conditional=fetched.conditional
    )
    if outcome is Outcome.NOT_MODIFIED or fetched.same:
        return Attempt(
            Outcome.NOT_MODIFIED,
            fetched.status,
            fetched.url,
            revisit=plan_after_unchanged(fetched, context),
        )
    if outcome is Outcome.FETCHED:
        return None
    unasked = " to a request without validators" if fetched.status == _NOT_MODIFIED else ""
    error = f"the server answered {fetched.status}{unasked}"
    return _failed_attempt(outcome, fetched, error, delay_s=retry_s, began=permits.began)


def _good_attempt(
    fetched: Fetched,
    extracted: Extracted,
    visit: VisitPlan,
    observations: FieldObservations | None,
    item_count: int | None,
    lacks: str | None,
) -> Attempt:
    return Attempt(
        Outcome.FETCHED,
        fetched.status,
        fetched.url,
        extracted,
        error=lacks,
        observations=observations,
        revisit=visit.revisit,
        last_item_count=item_count if visit.fields is None else visit.fields,
        same=visit.same,
    )


def _drop_disallowed_links(extracted: Extracted, robots: RobotsRules, url: str) -> Extracted:
    """Drops links to listings of the same host that robots.txt disallows: they would become
    thousands of rows."""
    origin = origin_of(url)
    links = [
        link
        for link in extracted.links
        if link.kind is not Kind.LISTING
        or origin_of(link.url) != origin
        or robots.allowed(link.url)
    ]
    if len(links) == len(extracted.links):
        return extracted
    return replace(extracted, links=links, disallowed=len(extracted.links) - len(links))


def _failed_attempt(
    outcome: Outcome,
    fetched: Fetched,
    error: str | None,
    delay_s: float | None = None,
    began: float = 0.0,
) -> Attempt:
    """Returns an attempt that gives nothing, with the evidence that an operator needs."""
    return Attempt(
        outcome,
        fetched.status,
        fetched.url,
        error=error,
        excerpt=fetched.body[: EXCERPT_CHARS * 2].decode("utf-8", "replace") or None,
        head=bound_headers(fetched),
        delay_s=delay_s,
        began=began,
    )


def bound_headers(fetched: Fetched) -> dict[str, str]:
    """Returns the first headers of a response, cut to a bounded length. (`Fetched.headers` has no
    cookies, which may identify an account.)"""
    fields = islice(fetched.headers.items(), HEAD_FIELDS)
    return {name[:HEAD_CHARS]: cut_storable(value, HEAD_CHARS) or "" for name, value in fields}
