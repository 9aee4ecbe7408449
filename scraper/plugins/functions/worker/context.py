"""Compiles how a call's requests are made: with a site's politeness, headers and proxies if the
call names one, otherwise with the call's options and a site's defaults. Cached."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import sqlalchemy as sa

from scraper.crawl.context import make_context
from scraper.domain import Fetched, Kind
from scraper.errors import FunctionRefusedError, quote_command
from scraper.frontier import sites
from scraper.http.page_browser import rendering_of
from scraper.http.policy import FetchPolicy
from scraper.http.transport.guard import PrivateAccess
from scraper.plugins.functions.group import CallOptions
from scraper.rules.blocks import Block, detect_block
from scraper.rules.budget import Budget
from scraper.rules.proxies import POOLS, ProxyNeed
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.sites.grammar import scalars
from scraper.sites.grammar.routes import ProxyUse

CONTEXTS_MAX = 200
_DEFAULTS = {name: Site.model_fields[name].default for name in ("rate", "concurrency", "burst")}


@dataclass(frozen=True, slots=True)
class CallContext:
    """`site_id` identifies the budget at a host's limiter; it is negative without a site."""

    site_id: int
    policy: FetchPolicy
    budget: Budget
    need: ProxyNeed | None
    robots: bool
    robots_agent: str
    block_of: Callable[[Fetched], Block | None]
    # How a browser shows its pages.
    rendering: Any = None


class CallContexts:
    """The contexts of this process. Calls with the same options share one, and so its budget."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: dict[object, CallContext] = {}
        self._numbers = count(1)
        self._making = threading.Lock()

    def context_for(self, options: CallOptions, connection: sa.Connection) -> CallContext:
        """Returns the options' context, in any thread. Raises `FunctionRefusedError` for invalid
        options, for a site that is missing or paused, and for proxies if this worker has no
        list."""
        with self._making:
            return self._context_for(options, connection)

    def _context_for(self, options: CallOptions, connection: sa.Connection) -> CallContext:
        if options.site is None:
            key: object = (options.region, options.proxy, options.rate, options.concurrency)
            return self._made.get(key) or self._store_context(key, self._make_context(options))
        if not {options.rate, options.concurrency, options.proxy} <= {None}:
            raise FunctionRefusedError(
                "a site has its own rate, concurrency and proxy (fix: pass only the site)"
            )
        site = sites.look_up(connection, options.site)
        if site is None:
            raise FunctionRefusedError(
                f"no site named {options.site!r} is in the database "
                "(fix: `scraper crawl` stores it)"
            )
        site_id, definition_hash, paused = site
        if paused:
            raise FunctionRefusedError(
                f"{options.site} is paused (fix: "
                f"`{quote_command('scraper sites resume', options.site)}`)"
            )
        key = (site_id, definition_hash, options.region)
        return self._made.get(key) or self._store_context(
            key, self._make_site_context(options, connection)
        )

    def _store_context(self, key: object, made: CallContext) -> CallContext:
        # Without a list, waiting for a proxy would never end.
        if made.need is not None and self._settings.proxy_list is None:
            raise FunctionRefusedError(
                "its requests need proxies, and this worker has no PROXY_LIST (fix: set it)"
            )
        while len(self._made) >= CONTEXTS_MAX:
            del self._made[next(iter(self._made))]
        return self._made.setdefault(key, made)

    def _make_context(self, options: CallOptions) -> CallContext:
        number = -next(self._numbers)
        try:
            per_s = scalars.parse_rate(options.rate or _DEFAULTS["rate"])
        except ValueError as error:
            raise FunctionRefusedError(f"rate: {error}") from None
        concurrency = options.concurrency or _DEFAULTS["concurrency"]
        if not 1 <= concurrency <= 1000:
            raise FunctionRefusedError(f"concurrency: {concurrency} is not from 1 to 1000")
        need = None
        if options.proxy is not None:
            if options.proxy not in POOLS:
                raise FunctionRefusedError(
                    f"proxy: {options.proxy[:100]!r} is not one of {', '.join(POOLS)}"
                )
            use = ProxyUse.model_validate({"pool": options.proxy})
            need = ProxyNeed(number, use.pool, options.region, use.sticky_s, use.sticky_requests)
        return CallContext(
            site_id=number,
            policy=self._make_policy(options.region, proxied=need is not None),
            budget=Budget(1 / per_s if per_s else 0.0, concurrency, _DEFAULTS["burst"]),
            need=need,
            robots=True,
            robots_agent=self._settings.user_agent,
            block_of=lambda fetched: detect_block(
                fetched.status, fetched.headers, fetched.body, url=fetched.url
            ),
        )

    def _make_policy(self, region: str | None, *, proxied: bool) -> FetchPolicy:
        settings = self._settings
        return FetchPolicy(
            user_agent=settings.user_agent,
            headers={},
            private=PrivateAccess(),
            allowed=None,
            body_max_bytes=settings.body_max_bytes,
            wire_max_bytes=settings.wire_max_bytes,
            redirects_max=settings.redirects_max,
            connect_timeout_s=settings.connect_timeout_s,
            read_timeout_s=settings.read_timeout_s,
            page_timeout_s=settings.page_timeout_s,
            proxied=proxied,
            region=region,
        )

    def _make_site_context(self, options: CallOptions, connection: sa.Connection) -> CallContext:
        row = sites.find_site(connection, options.site or "")
        assert row is not None
        context = make_context(0, *row, self._settings)
        need = context.needs[Kind.PRODUCT]
        if need is not None and options.region is not None:
            need = replace(need, region=options.region)
        return CallContext(
            site_id=context.site_id,
            policy=replace(
                context.policies[Kind.PRODUCT], region=options.region or context.site.region
            ),
            budget=context.budget,
            need=need,
            robots=context.site.robots,
            robots_agent=context.robots_agent,
            block_of=context.block_of,
            rendering=rendering_of(context.site),
        )
