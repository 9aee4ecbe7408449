"""What a worker needs to know of a crawl, compiled once: its definition, extractor, and the policies made from it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from scraper.domain import Kind
from scraper.extract import Extractor, compile_site
from scraper.fetch.http import FetchPolicy
from scraper.policy.budget import Budget
from scraper.policy.routing import ANY_REGION, page_priority, queue_name
from scraper.policy.urls import belongs
from scraper.policy.verdict import RetryPolicy
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.stores.settle import CrawlLimits


@dataclass(frozen=True, slots=True)
class CrawlContext:
    """Immutable for the crawl's life: a definition changed meanwhile counts from the next crawl on."""

    crawl_id: int
    site_id: int
    site: Site
    extractor: Extractor
    policy: FetchPolicy
    sitemap_policy: FetchPolicy
    retry: RetryPolicy
    limits: CrawlLimits
    budget: Budget
    queues: dict[Kind, str]
    priorities: dict[Kind, int]

    @staticmethod
    def now() -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)


def queues_of(site: Site) -> dict[Kind, str]:
    """The queue of each kind of a site's pages."""
    return {kind: queue_name(site.queue_of(kind), site.region or ANY_REGION) for kind in Kind}


def budget_of(site: Site) -> Budget:
    """What a site's definition allows on each of its hosts."""
    return Budget(1 / site.rate_per_s if site.rate_per_s else 0.0, site.concurrency, site.burst)


def make_context(crawl_id: int, site_id: int, site: Site, settings: Settings) -> CrawlContext:
    """Compiles a crawl's context. Costs some milliseconds; keep it."""
    hosts = site.allowed_hosts
    policy = FetchPolicy(
        user_agent=site.user_agent or settings.user_agent,
        headers=site.headers,
        allow_private=site.allow_private,
        allowed=lambda host: belongs(host, hosts),
        body_max_bytes=site.limits.body or settings.body_max_bytes,
        wire_max_bytes=site.limits.body or settings.wire_max_bytes,
        redirects_max=settings.redirects_max,
        connect_timeout_s=settings.connect_timeout_s,
        read_timeout_s=settings.read_timeout_s,
        page_timeout_s=settings.page_timeout_s,
    )
    return CrawlContext(
        crawl_id=crawl_id,
        site_id=site_id,
        site=site,
        extractor=compile_site(site),
        policy=policy,
        sitemap_policy=replace(
            policy, body_max_bytes=settings.sitemap_max_bytes, wire_max_bytes=settings.sitemap_max_bytes
        ),
        retry=RetryPolicy(attempts_max=site.limits.attempts or settings.attempts_max),
        limits=CrawlLimits(site.limits.listings, site.limits.products),
        budget=budget_of(site),
        queues=queues_of(site),
        priorities={kind: page_priority(site.priority_number, kind) for kind in Kind},
    )
