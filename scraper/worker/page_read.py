"""What an answer is: a block, a refusal, the page of last time, or what is on it, and whether that
is believed. Nothing here fetches or stores.

A challenge in place of a listing looks like a category that has become empty, and would delist what
it used to name. Such a page is not believed where it named products before: it is tried again, and
then its crawl is incomplete. What has the links of a menu still is the shop's own page: the next
crawl believes it. What has none is not believed until a person accepts the crawl.
One that names far fewer products than before is read once more. The last page of a category shrinks
on any day, and is believed then. One that another page follows, by what it says itself, should be
full: its links are taken, but its crawl has not seen the whole catalogue, and the next one believes
it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice

from scraper.crawl.context import CrawlContext
from scraper.crawl.revisits import after_read, after_same, gives_the_same
from scraper.domain import Extracted, Fetched, FieldObservations, Kind, LeasedPage, Outcome
from scraper.extract import FunctionFailed, TooSlow
from scraper.extract.subprocess.pool import ExtractionPool
from scraper.http.held_bodies import HeldBody
from scraper.politeness.page_permits import PagePermits
from scraper.politeness.robots import RobotsRules, origin_of
from scraper.rules.blocks import judge_missing_fields
from scraper.rules.quality import NOT_FULL
from scraper.rules.verdict import outcome_of_status, retry_after_s
from scraper.worker.batch import Attempt
from scraper.worker.observations import Doubt, FieldObserver
from scraper.worker.page_result import EXCERPT_CHARS, storable
from scraper.worker.tiers import Tier

# Pages up to so large wait for each other before each step, so that answers are taken, pages read
# and results settled in turns of several: a step's code and tables are in the processor's caches
# then, which saves a sixth of a page's time. A larger page fills these caches itself.
SMALL_BYTES = 65_536
# A listing of fewer products may become empty any day.
NAMED_LEAST = 2
# Far fewer: less than this share of so many products.
FEWER, FEWER_LEAST = 0.5, 4
# What stands for one that was empty once, and is believed the second time.
EMPTY_ONCE = 1
HEAD_FIELDS = 40
HEAD_CHARS = 200
_NOT_MODIFIED = 304


class PageRead:
    """One page's answer, read once, whoever asks."""

    __slots__ = ("_body", "_context", "_extracted", "_fetched", "_observer", "_page", "_reader")

    def __init__(
        self,
        reader: ExtractionPool,
        observer: FieldObserver,
        page: LeasedPage,
        context: CrawlContext,
        body: HeldBody,
    ) -> None:
        self._reader = reader
        self._observer = observer
        self._page = page
        self._context = context
        self._body = body
        self._fetched: Fetched | None = None
        self._extracted: Extracted | TooSlow | FunctionFailed = Extracted()

    async def attempt(self, fetched: Fetched, tier: Tier, permits: PagePermits) -> Attempt:
        """What came of the page. Raises `FunctionFailed`."""
        page, context = self._page, self._context
        unread = _unread(page, fetched, context, tier, permits)
        if unread is not None:
            return unread
        try:
            extracted = await self.extracted(fetched)
        except TooSlow as slow:
            return _useless(Outcome.TOO_SLOW, fetched, str(slow), began=permits.began)
        if permits.robots is not None and page.kind is Kind.LISTING:
            extracted = _allowed(extracted, permits.robots, fetched.url)
        doubt = self._observer.doubt(page, fetched, extracted, context)
        observations, last_item_count = None, None
        if page.kind is Kind.PRODUCT:
            observations = self._observer.of(page, fetched, extracted, context)
        # An interface's last page may be empty any day, and says so by itself.
        if not context.extractor.reads_interface(page.url):
            extracted, last_item_count = believed(page, extracted, context.retry.attempts_max)
        if doubt is None and extracted.complete:
            return _complete(page, fetched, extracted, context, observations, last_item_count)
        suspected = _suspected(page, fetched, extracted, doubt, tier, permits)
        if suspected is not None:
            return suspected
        return replace(
            _useless(
                Outcome.NOT_EXTRACTED if doubt is None else Outcome.DOUBTFUL,
                fetched,
                _why(extracted, doubt),
            ),
            observations=observations,
            last_item_count=last_item_count if doubt is None else doubt.last_item_count,
        )

    async def extracted(self, fetched: Fetched) -> Extracted:
        """Raises `TooSlow` and `FunctionFailed`."""
        if fetched is not self._fetched:
            page = self._page
            self._body.complete(len(fetched.body))
            if small := len(fetched.body) <= SMALL_BYTES:
                await asyncio.sleep(0)
            try:
                self._extracted = await self._reader.read(
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
                await asyncio.sleep(0)
        if not isinstance(self._extracted, Extracted):
            raise self._extracted
        return self._extracted

    async def lacks(self, fetched: Fetched) -> str:
        """What is not there that should be, for whoever may ask in another way; "": nothing."""
        try:
            extracted, _ = believed(self._page, await self.extracted(fetched), 1)
        except (TooSlow, FunctionFailed):
            return ""
        if not extracted.complete:
            return extracted.problems_text or "what is required"
        empty = not (extracted.links or extracted.products or extracted.partial)
        if empty and self._page.kind.discovers:
            return "no link"
        return self._observer.poor(self._page, extracted, self._context, other_proxies=True)


def _unread(
    page: LeasedPage, fetched: Fetched, context: CrawlContext, tier: Tier, permits: PagePermits
) -> Attempt | None:
    """Of an answer that is not read: a block, the page of last time, a refusal. None of others."""
    block = context.block_of(fetched)
    # Otherwise it is an ordinary refusal.
    if block is not None and (block.by != "status" or tier.above is not None):
        blocked = _useless(Outcome.BLOCKED, fetched, str(block), began=permits.began)
        return replace(blocked, sign=block.sign)
    wish_s = retry_after_s(fetched.headers, context.now())
    outcome = outcome_of_status(
        fetched.status, retry_after=wish_s is not None, conditional=fetched.conditional
    )
    if outcome is Outcome.NOT_MODIFIED or fetched.same:
        return Attempt(
            Outcome.NOT_MODIFIED,
            fetched.status,
            fetched.url,
            next_visit=after_same(page, fetched, context),
        )
    if outcome is Outcome.FETCHED:
        return None
    unasked = " to a request without validators" if fetched.status == _NOT_MODIFIED else ""
    error = f"the server answered {fetched.status}{unasked}"
    return _useless(outcome, fetched, error, delay_s=wish_s, began=permits.began)


def _complete(
    page: LeasedPage,
    fetched: Fetched,
    extracted: Extracted,
    context: CrawlContext,
    observations: FieldObservations | None,
    last_item_count: int | None,
) -> Attempt:
    visit, same = None, False
    if page.kind is Kind.PRODUCT:
        fields = extracted.fields_found
        same = gives_the_same(page, fetched, extracted, context)
        if same:
            visit = after_same(page, fetched, context)
        else:
            visit = after_read(page, fetched, extracted, context)
        last_item_count = fields if fields != page.last_item_count else None
    return Attempt(
        Outcome.FETCHED,
        fetched.status,
        fetched.url,
        extracted,
        observations=observations,
        next_visit=visit,
        last_item_count=last_item_count,
        same=same,
    )


def _suspected(
    page: LeasedPage,
    fetched: Fetched,
    extracted: Extracted,
    doubt: Doubt | None,
    tier: Tier,
    permits: PagePermits,
) -> Attempt | None:
    """A page that lacks what it should have, where that may be a block. None: it may not."""
    # Other proxies have been asked already.
    other_way = permits.route is None and tier.above is not None
    block = judge_missing_fields(
        good_before=page.good_before or doubt is not None,
        suspected_before=page.blocked > 0,
        other_way=other_way and not tier.probe,
    )
    if block is None:
        return None
    suspected = _useless(Outcome.BLOCKED, fetched, f"{block}: {_why(extracted, doubt)}")
    return replace(suspected, sign=block.sign, suspicion=True)


def _why(extracted: Extracted, doubt: Doubt | None) -> str:
    return doubt.why if doubt is not None else extracted.problems_text


def believed(page: LeasedPage, extracted: Extracted, tries: int) -> tuple[Extracted, int | None]:
    """What was extracted, incomplete where it is not believed; and how many products the page is
    to be known for from now on (None: as many as before). `tries`: so many a page has."""
    if page.kind is not Kind.LISTING or not extracted.complete:
        return extracted, None
    named = len(extracted.products) + sum(link.kind is Kind.PRODUCT for link in extracted.links)
    if named or page.last_item_count < NAMED_LEAST:
        if page.last_item_count < FEWER_LEAST or named >= FEWER * page.last_item_count:
            return extracted, named
        problem = f"{NOT_FULL} {named} products, and named {page.last_item_count} before"
        if page.attempts == 0 and tries > 1:
            return replace(extracted, complete=False, problems=[problem]), None
        if not extracted.goes_on:
            return extracted, named
        problems = [f"{problem}, and another page follows", *extracted.problems]
        return replace(extracted, partial=True, problems=problems), named
    problem = f"it names no product, and named {page.last_item_count} before"
    doubted = replace(extracted, complete=False, problems=[problem, *extracted.problems])
    return doubted, EMPTY_ONCE if extracted.links or extracted.framed else None


def _allowed(extracted: Extracted, robots: RobotsRules, url: str) -> Extracted:
    """Without the links to listings of that host that robots.txt disallows: they would become rows
    by the thousand."""
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


def _useless(
    outcome: Outcome,
    fetched: Fetched,
    error: str | None,
    delay_s: float | None = None,
    began: float = 0.0,
) -> Attempt:
    """An answer that gives nothing, with what people need to see why."""
    excerpt, head = _excerpt(fetched), _head(fetched)
    return Attempt(outcome, fetched.status, fetched.url, None, error, excerpt, head, delay_s, began)


def _head(fetched: Fetched) -> dict[str, str]:
    """The answer's headers, bounded. (Cookies, which are somebody's identity, are not among
    `Fetched.headers`.)"""
    fields = islice(fetched.headers.items(), HEAD_FIELDS)
    return {name[:HEAD_CHARS]: storable(value, HEAD_CHARS) or "" for name, value in fields}


def _excerpt(fetched: Fetched) -> str | None:
    return fetched.body[: EXCERPT_CHARS * 2].decode("utf-8", "replace") or None
