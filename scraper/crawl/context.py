"""What a worker needs to know of a crawl, compiled once: its definition, extractor, and the
policies made from it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from ipaddress import ip_network
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.login_signs import LoginSigns
from scraper.domain import NO_VALIDATORS, Fetched, Kind, LastReading, LeasedPage, Validators
from scraper.extract import Extractor, compile_site
from scraper.frontier import crawls
from scraper.http.page_browser import rendering_of
from scraper.http.policy import FetchPolicy
from scraper.http.transport.guard import Networks, PrivateAccess
from scraper.registry import first_answer, plugin_hooks
from scraper.results.listing_traps import max_barren_depth
from scraper.results.transaction import CrawlLimits
from scraper.rules.blocks import (
    Block,
    Marker,
    detect_block,
    detect_block_redirect,
)
from scraper.rules.browsers import BROWSER
from scraper.rules.budget import Budget
from scraper.rules.proxies import ProxyNeed
from scraper.rules.revisit import trusted_reading
from scraper.rules.routing import ANY_REGION, Route, choose_route
from scraper.rules.urls import belongs_to
from scraper.rules.verdict import RetryPolicy
from scraper.settings import Settings
from scraper.sites.blocked_keys import compile_markers
from scraper.sites.definition import Site
from scraper.sites.functions import read_function_source
from scraper.sites.grammar.routes import NO_PROXY, STICKY_REQUESTS, ProxyUse

OUR_VERSION = version("celery-scraper")
CONTEXTS_MAX = 2000


@dataclass(frozen=True, slots=True)
class CrawlContext:
    """Immutable for the crawl's life: a definition changed meanwhile counts from the next crawl
    on."""

    crawl_id: int
    site_id: int
    site: Site
    extractor: Extractor
    policy: FetchPolicy
    policies: dict[Kind, FetchPolicy]
    needs: dict[Kind, ProxyNeed | None]
    dearer: dict[str, ProxyNeed]
    markers: tuple[Marker, ...]
    login: LoginSigns | None
    robots_agent: str
    retry: RetryPolicy
    limits: CrawlLimits
    budget: Budget
    extractor_version: ExtractorVersion
    # Of a site without rules of its own, the pages of a kind all go one way; else it is empty.
    ways: dict[Kind, Route]
    # How a browser shows the pages that come to its level.
    rendering: Any = None
    # What plug-ins keep of the crawl, by their names.
    extras: Mapping[str, object] = field(default_factory=dict)

    def choose_route(self, kind: Kind, url: str) -> Route:
        return self.ways.get(kind) or choose_route(self.site.routing_preferences, kind, url)

    def need(self, page: LeasedPage, level: str) -> ProxyNeed | None:
        """The proxies that a page goes through at a level; a route's region is theirs too."""
        need = self.needs[page.kind]
        if need is None:
            return None
        # A page goes there that is blocked with the proxies of its start.
        if level in self.dearer:
            need = self.dearer[level]
        return replace(need, region=self._region(page)) if self.site.routes else need

    def block_of(self, fetched: Fetched) -> Block | None:
        """What keeps us out, if anything does, by the answer itself. What it was when it was good
        does not."""
        if fetched.same:
            return None
        block = detect_block(
            fetched.status, fetched.headers, fetched.body, self.markers, url=fetched.url
        )
        if (
            self.login is not None
            and block is not None
            and block.by == "status"
            and self._out(fetched) is not None
        ):
            # By such a 403 a site sends one to log in.
            return None
        return detect_block_redirect(fetched.url) if block is None and fetched.redirects else block

    def logged_out(self, fetched: Fetched) -> str | None:
        """What shows that the answer is a logged-out visitor's; None where nothing does, or it is a
        block."""
        sign = self._out(fetched)
        return sign if sign is not None and self.block_of(fetched) is None else None

    def _out(self, fetched: Fetched) -> str | None:
        if self.login is None or fetched.same:
            return None
        return self.login.logged_out(fetched.status, fetched.headers, fetched.body, fetched.url)

    def policy_of(self, page: LeasedPage) -> FetchPolicy:
        policy = self.policies[page.kind]
        return replace(policy, region=self._region(page)) if self.site.routes else policy

    def _region(self, page: LeasedPage) -> str | None:
        region = self.choose_route(page.kind, page.url).region
        return None if region == ANY_REGION else region

    def validators_of(self, page: LeasedPage) -> Validators | None:
        """Those that a page is asked with, and its answer compared by. None where that is never
        done. Listings and sitemaps are asked for whole: the links on them are stored nowhere, and
        are to be followed in each crawl."""
        if page.kind is not Kind.PRODUCT or not self.site.conditional_s:
            return None
        last = self.last_reading_of(page)
        return NO_VALIDATORS if last is None else last.validators

    def last_reading_of(self, page: LeasedPage) -> LastReading | None:
        """What stands for the page where it has not changed since; None: it is read whole."""
        if page.last_reading is None:
            return None
        return trusted_reading(page, self.extractor_version.hash, self.site.conditional_s)

    @staticmethod
    def now() -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)


class CrawlContexts:
    """Those of one process, by their crawls' ids: made when first asked for, the latest kept."""

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._made: dict[int, CrawlContext] = {}

    async def of(self, crawl_id: int) -> CrawlContext:
        """On the loop. Raises what PostgreSQL does, and whatever is wrong with the definition."""
        context = self._made.get(crawl_id)
        if context is None:
            context = await asyncio.to_thread(self._make, crawl_id)
            while len(self._made) >= CONTEXTS_MAX:
                del self._made[next(iter(self._made))]
            self._made[crawl_id] = context
        return context

    def limits(self, crawl_id: int) -> CrawlLimits:
        """From any thread. Of a crawl without a context: no page of it adds anything."""
        try:
            context = self._made.get(crawl_id) or self._make(crawl_id)
        except SQLAlchemyError:
            raise
        except Exception:  # noqa: BLE001 - whatever keeps it from having a context
            # Its pages crash, and add nothing.
            return CrawlLimits(0, 0)
        return context.limits

    def _make(self, crawl_id: int) -> CrawlContext:
        with self._engine.begin() as connection:
            site_id, site = crawls.definition(connection, crawl_id)
            extras = {
                name: extra
                for name, hooks in plugin_hooks().items()
                if (extra := hooks.crawl_extra(connection, crawl_id, site_id, site)) is not None
            }
        return replace(make_context(crawl_id, site_id, site, self._settings), extras=extras)


def budget_of(site: Site) -> Budget:
    """What a site's definition allows on each of its hosts."""
    return Budget(1 / site.rate_per_s if site.rate_per_s else 0.0, site.concurrency, site.burst)


class ExtractorVersion:
    """What extracts a site's product pages: its definition, as far as it decides that, its
    function's file, and the version of this package. Another one may extract another product from a
    page that has not changed."""

    def __init__(self, site: Site, allowed: tuple[str, ...]) -> None:
        self._site = site
        self._allowed = allowed

    @cached_property
    def hash(self) -> int | None:
        """Returns a bigint that is the same in every process, or None if the function's source is
        unknown. Imports the function's module."""
        parts = [OUR_VERSION, self._site.reading]
        if self._site.product.function is not None:
            source = read_function_source(self._site.product.function, self._allowed)
            if source is None:
                return None
            parts.append(source)
        digest = blake2b("\0".join(parts).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def _networks(site: Site) -> Networks:
    listed = site.allow_private
    return () if isinstance(listed, bool) else tuple(map(ip_network, listed))


def make_context(crawl_id: int, site_id: int, site: Site, settings: Settings) -> CrawlContext:
    """Compiles a crawl's context. Costs some milliseconds; keep it. Crawls by the same definition
    share one `Site`, which is most of a context: 5 KB in place of 16."""
    extractor = compile_site(site, settings.site_function_modules)
    site = extractor.site
    hosts = site.allowed_hosts
    policy = FetchPolicy(
        user_agent=site.user_agent or settings.user_agent,
        headers=site.headers,
        private=PrivateAccess(site.private_hosts, _networks(site)),
        allowed=lambda host: belongs_to(host, hosts),
        body_max_bytes=site.limits.body or settings.body_max_bytes,
        wire_max_bytes=site.limits.body or settings.wire_max_bytes,
        redirects_max=settings.redirects_max,
        connect_timeout_s=settings.connect_timeout_s,
        read_timeout_s=settings.read_timeout_s,
        page_timeout_s=settings.page_timeout_s,
        region=site.region,
        handshake=first_answer(hooks.handshake(site) for hooks in plugin_hooks().values()),
        cookies=site.name if site.cookies == "keep" else None,
    )
    needs = {kind: _need(site_id, site, kind) for kind in Kind}
    return CrawlContext(
        crawl_id=crawl_id,
        site_id=site_id,
        site=site,
        extractor=extractor,
        policy=policy,
        policies={
            kind: _policy(policy, kind, settings, proxied=needs[kind] is not None) for kind in Kind
        },
        needs=needs,
        dearer={level: _dearer(site_id, site) for level in site.escalate},
        markers=compile_markers(site.blocked),
        login=first_answer(hooks.login_signs(site) for hooks in plugin_hooks().values()),
        # However a site wants us to look, its rules for us are those for the name that we go by.
        robots_agent=settings.user_agent
        if site.user_agent in (None, BROWSER)
        else policy.user_agent,
        retry=RetryPolicy(attempts_max=site.limits.attempts or settings.attempts_max),
        limits=CrawlLimits(
            site.limits.listings, site.limits.products, max_barren_depth(site.limits.fruitless)
        ),
        budget=budget_of(site),
        rendering=rendering_of(site),
        extractor_version=ExtractorVersion(site, settings.site_function_modules),
        ways={}
        if site.routes
        else {kind: choose_route(site.routing_preferences, kind, "") for kind in Kind},
    )


def _need(site_id: int, site: Site, kind: Kind) -> ProxyNeed | None:
    use = site.proxy_of(kind)
    if use.pool == NO_PROXY:
        return None
    return ProxyNeed(site_id, use.pool, site.region, use.sticky_s, use.sticky_requests)


def _dearer(site_id: int, site: Site) -> ProxyNeed:
    """Above its start a page goes through residential proxies, a browser too."""
    use = ProxyUse.model_validate({"pool": "residential"})
    return ProxyNeed(site_id, use.pool, site.region, use.sticky_s, STICKY_REQUESTS)


def _policy(policy: FetchPolicy, kind: Kind, settings: Settings, *, proxied: bool) -> FetchPolicy:
    if kind is not Kind.SITEMAP:
        return replace(policy, proxied=proxied)
    size = settings.sitemap_max_bytes
    return replace(policy, proxied=proxied, body_max_bytes=size, wire_max_bytes=size)
