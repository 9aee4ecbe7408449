"""A crawl's context: what a worker needs to know about it, compiled once from its definition."""

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
from math import ceil
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.isolation import isolated, restarted_at_error
from scraper.crawl.login_signs import LoginSigns
from scraper.domain import NO_VALIDATORS, Fetched, Kind, LastReading, LeasedPage, Validators
from scraper.extract import Extractor, compile_site
from scraper.frontier import crawls
from scraper.http.page_browser import rendering_of
from scraper.http.policy import FetchPolicy
from scraper.http.transport.guard import Networks, PrivateAccess
from scraper.infra import outages
from scraper.registry import first_answer, plugin_hooks
from scraper.results.listing_traps import max_barren_depth
from scraper.results.transaction import CrawlLimits
from scraper.rules.blocks import Block, Marker, detect_block, detect_block_redirect
from scraper.rules.browsers import BROWSER
from scraper.rules.budget import Budget
from scraper.rules.proxies import ProxyNeed
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
HURRIED_MAX = 100


@dataclass(frozen=True, slots=True)
class CrawlContext:
    """The definition, extractor and policies of a crawl. They are fixed while it runs: a changed
    definition counts from the next crawl on."""

    crawl_id: int
    site_id: int
    site: Site
    extractor: Extractor
    policy: FetchPolicy
    policies: dict[Kind, FetchPolicy]
    needs: dict[Kind, ProxyNeed | None]
    escalated_needs: dict[str, ProxyNeed]
    markers: tuple[Marker, ...]
    login: LoginSigns | None
    robots_agent: str
    retry: RetryPolicy
    limits: CrawlLimits
    budget: Budget
    extractor_version: ExtractorVersion
    # The route of each kind, if the site has no routing rules; otherwise empty.
    fixed_routes: dict[Kind, Route]
    # How a browser renders pages at its level.
    rendering: Any = None
    # What plug-ins keep of the crawl, by their names.
    extras: Mapping[str, object] = field(default_factory=dict)
    _hurried: dict[tuple[Kind, str | None, float], FetchPolicy] = field(default_factory=dict)

    def choose_route(self, kind: Kind, url: str) -> Route:
        """Returns the queue, region and priority of a page."""
        return self.fixed_routes.get(kind) or choose_route(self.site.routing_preferences, kind, url)

    def proxy_need(self, page: LeasedPage, level: str) -> ProxyNeed | None:
        """Returns the proxies that a page needs at a level, in the region of its route."""
        need = self.needs[page.kind]
        if need is None:
            return None
        # A page reaches this level if it was blocked with the proxies of its starting level.
        if level in self.escalated_needs:
            need = self.escalated_needs[level]
        if page.again:
            # A second reading takes another proxy, and no cookies of the first.
            need = replace(need, sticky_s=0.0)
        return replace(need, region=self._region_of(page)) if self.site.routes else need

    def block_of(self, fetched: Fetched) -> Block | None:
        """Returns what blocks the page, by the answer itself, or None. An unchanged answer is not a
        block."""
        if fetched.same:
            return None
        block = detect_block(
            fetched.status, fetched.headers, fetched.body, self.markers, url=fetched.url
        )
        if (
            self.login is not None
            and block is not None
            and block.by == "status"
            and self._logout_sign(fetched) is not None
        ):
            # With such a 403 a site asks for a login.
            return None
        return detect_block_redirect(fetched.url) if block is None and fetched.redirects else block

    def logged_out(self, fetched: Fetched) -> str | None:
        """Returns the sign that the answer is for a logged-out visitor, or None without a sign or
        for a block."""
        sign = self._logout_sign(fetched)
        return sign if sign is not None and self.block_of(fetched) is None else None

    def _logout_sign(self, fetched: Fetched) -> str | None:
        if self.login is None or fetched.same:
            return None
        return self.login.logged_out(fetched.status, fetched.headers, fetched.body, fetched.url)

    def policy_of(self, page: LeasedPage) -> FetchPolicy:
        """Returns how a page is fetched, in the region of its route."""
        policy = self.policies[page.kind]
        return replace(policy, region=self._region_of(page)) if self.site.routes else policy

    def hurried_policy(self, kind: Kind, policy: FetchPolicy, seconds: float) -> FetchPolicy:
        """Returns the policy of a page of that kind with less time, in seconds, rounded up to
        tenths: most pages of a host share one."""
        key = kind, policy.region, min(ceil(seconds * 10) / 10, policy.page_timeout_s)
        hurried = self._hurried.get(key)
        if hurried is None:
            if len(self._hurried) >= HURRIED_MAX:
                self._hurried.clear()
            hurried = self._hurried[key] = replace(policy, page_timeout_s=key[2], hurried=True)
        return hurried

    def _region_of(self, page: LeasedPage) -> str | None:
        region = self.choose_route(page.kind, page.url).region
        return None if region == ANY_REGION else region

    def validators_of(self, page: LeasedPage) -> Validators | None:
        """Returns the validators of a page's request, with which its answer is compared; None if it
        has none. Listings and sitemaps are always requested whole: their links are not stored, and
        each crawl must follow them."""
        if page.kind is not Kind.PRODUCT or not self.site.conditional_s:
            return None
        last = self.last_reading_of(page)
        return NO_VALIDATORS if last is None else last.validators

    def last_reading_of(self, page: LeasedPage) -> LastReading | None:
        """Returns the page's last reading, whose validators its request carries; None where a 304,
        or the same content, would not prove enough.

        Another extractor would find other values on the same page. After the site's `conditional`
        time a page is read whole again. A 304 proves nothing for a page that seems to be blocked.
        """
        last, extractor_hash = page.last_reading, self.extractor_version.hash
        if last is None or extractor_hash is None or page.blocked:
            return None
        trusted = last.extractor_hash == extractor_hash and last.read_s < self.site.conditional_s
        return last if trusted else None

    @staticmethod
    def now() -> datetime:
        """Returns the current time."""
        return datetime.fromtimestamp(time.time(), UTC)


class CrawlContexts:
    """The contexts of one process, by their crawls' ids. Compiled on first use; the newest ones are
    kept."""

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._made: dict[int, CrawlContext] = {}

    async def context_of(self, crawl_id: int) -> CrawlContext:
        """Returns a crawl's context. Call it on the loop. Raises PostgreSQL's errors, and those of
        an invalid definition."""
        context = self._made.get(crawl_id)
        if context is None:
            context = await asyncio.to_thread(self._compile_context, crawl_id)
            while len(self._made) >= CONTEXTS_MAX:
                del self._made[next(iter(self._made))]
            self._made[crawl_id] = context
        return context

    def limits_of(self, crawl_id: int) -> CrawlLimits:
        """Returns a crawl's limits, on any thread. A crawl without a context may add nothing."""
        try:
            context = self._made.get(crawl_id) or self._compile_context(crawl_id)
        except SQLAlchemyError:
            raise
        except Exception:  # noqa: BLE001 - a definition may fail in any way
            # The crawl's pages crash, and add nothing.
            return CrawlLimits(0, 0)
        return context.limits

    def _compile_context(self, crawl_id: int) -> CrawlContext:
        with self._engine.connect() as connection:
            row = crawls.read_definition(connection, crawl_id)
            site_id, site = row.site_id, Site.model_validate(row.definition)
            extras = {}
            for name, hooks in plugin_hooks().items():
                with (
                    isolated(name, "crawl_extra", outages.is_postgres_away),
                    restarted_at_error(connection),
                ):
                    extra = hooks.crawl_extra(connection, crawl_id, site_id, site)
                    if extra is not None:
                        extras[name] = extra
            connection.commit()
        return replace(make_context(crawl_id, site_id, site, self._settings), extras=extras)


def budget_of(site: Site) -> Budget:
    """Returns what a site's definition allows on each of its hosts."""
    return Budget(1 / site.rate_per_s if site.rate_per_s else 0.0, site.concurrency, site.burst)


class ExtractorVersion:
    """What extracts a site's product pages: its definition, as far as it decides that, its
    function's file, and the version of this package. Another version may extract another product
    from a page that has not changed."""

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


def _networks_of(site: Site) -> Networks:
    """Returns the networks that `allow_private` lists; none if it is true or false."""
    listed = site.allow_private
    return () if isinstance(listed, bool) else tuple(map(ip_network, listed))


def make_context(crawl_id: int, site_id: int, site: Site, settings: Settings) -> CrawlContext:
    """Compiles a crawl's context, which takes some milliseconds. Crawls of the same definition
    share one `Site`, which is most of a context: 5 KB instead of 16."""
    extractor = compile_site(site, settings.site_function_modules)
    site = extractor.site
    policy = _site_policy(site, settings)
    needs = {kind: _need_of(site_id, site, kind) for kind in Kind}
    return CrawlContext(
        crawl_id=crawl_id,
        site_id=site_id,
        site=site,
        extractor=extractor,
        policy=policy,
        policies={
            kind: _policy_for(policy, kind, settings, proxied=needs[kind] is not None)
            for kind in Kind
        },
        needs=needs,
        escalated_needs={level: _escalated_need(site_id, site) for level in site.escalate},
        markers=compile_markers(site.blocked),
        login=first_answer(hooks.login_signs(site) for hooks in plugin_hooks().values()),
        # Whatever browser a site imitates, the rules of robots.txt are those for the real name.
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
        fixed_routes={}
        if site.routes
        else {kind: choose_route(site.routing_preferences, kind, "") for kind in Kind},
    )


def _site_policy(site: Site, settings: Settings) -> FetchPolicy:
    hosts = site.allowed_hosts
    return FetchPolicy(
        user_agent=site.user_agent or settings.user_agent,
        headers=site.headers,
        private=PrivateAccess(site.private_hosts, _networks_of(site)),
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


def _need_of(site_id: int, site: Site, kind: Kind) -> ProxyNeed | None:
    use = site.proxy_of(kind)
    if use.pool == NO_PROXY:
        return None
    return ProxyNeed(site_id, use.pool, site.region, use.sticky_s, use.sticky_requests)


def _escalated_need(site_id: int, site: Site) -> ProxyNeed:
    """Returns the proxies above the starting level: residential ones, for a browser as well."""
    use = ProxyUse.model_validate({"pool": "residential"})
    return ProxyNeed(site_id, use.pool, site.region, use.sticky_s, STICKY_REQUESTS)


def _policy_for(
    policy: FetchPolicy, kind: Kind, settings: Settings, *, proxied: bool
) -> FetchPolicy:
    if kind is not Kind.SITEMAP:
        return replace(policy, proxied=proxied)
    size = settings.sitemap_max_bytes
    return replace(policy, proxied=proxied, body_max_bytes=size, wire_max_bytes=size)
