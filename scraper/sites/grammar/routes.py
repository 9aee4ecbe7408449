"""How a site's pages are fetched: queues, regions, priorities, proxies. Pure."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scraper.rules.routing import RoutingRule
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import (
    Duration,
    Model,
    Regex,
    Text,
    as_list_or_none,
    expand_text,
    refuse,
    run_check,
)
from scraper.sites.grammar.selectors import compile_regex

MATCH_TIMEOUT_S = 0.1
Queue = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$"), AfterValidator(scalars.check_queue)
]
Region = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]
Priority = Annotated[Text, AfterValidator(partial(run_check, scalars.parse_priority))]


NO_PROXY = "none"
# How long an identity lasts by default.
STICKY_S, STICKY_REQUESTS = 600.0, 100


class ProxyUse(Model):
    """The proxies, and how long an identity keeps one of them."""

    pool: Literal["none", "datacenter", "residential"] = Field(
        description="the class of proxies; none: no proxy"
    )
    sticky: Duration | None = Field(
        None,
        description="how long an identity (proxy, cookies, headers) lasts: 10m; 0: a new one for "
        "each page",
    )
    requests: int | None = Field(
        None, ge=1, le=1_000_000, description="the most pages for one identity"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.pool == NO_PROXY and (self.sticky is not None or self.requests is not None):
            refuse("pool", "sticky and requests need a proxy (fix: remove them)")
        return self

    @property
    def sticky_s(self) -> float:
        """How long an identity lasts; 0: for one page. Residential identities last by default."""
        if self.sticky is not None:
            return scalars.parse_duration(self.sticky)
        return STICKY_S if self.requests or self.pool == "residential" else 0.0

    @property
    def sticky_requests(self) -> int:
        return self.requests or STICKY_REQUESTS


Proxy = Annotated[
    ProxyUse,
    BeforeValidator(
        expand_text("pool"),
        json_schema_input_type=Literal["none", "datacenter", "residential"] | ProxyUse,
    ),
]


Escalate = Annotated[
    tuple[Literal["residential", "browser"], ...],
    BeforeValidator(
        as_list_or_none,
        json_schema_input_type=Literal["none", "residential", "browser"]
        | list[Literal["residential", "browser"]],
    ),
]


class RouteRule(Model):
    """Pages with another route than the rest of their site."""

    match: Regex = Field(description="a regular expression that the pages' URLs match")
    queue: Queue | None = Field(None, description="default: the site's")
    region: Region | None = Field(None, description="default: the site's; any: every region")
    priority: Priority | None = Field(None, description="default: the site's")

    @model_validator(mode="after")
    def _check_changes(self) -> Self:
        if self.queue is self.region is self.priority is None:
            refuse(
                "", "the route changes nothing (fix: add queue, region or priority, or remove it)"
            )
        return self

    @property
    def rule(self) -> RoutingRule:
        """The compiled rule. It does not match a URL on which its pattern takes too long."""
        pattern = compile_regex(self.match)

        def matches_url(url: str) -> bool:
            try:
                return pattern.search(url, timeout=MATCH_TIMEOUT_S) is not None
            except TimeoutError:
                return False

        priority = None if self.priority is None else scalars.parse_priority(self.priority)
        return RoutingRule(matches_url, self.queue, self.region, priority)
