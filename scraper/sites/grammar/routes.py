"""Which way a site's pages go: queues, regions, priorities, proxies. Pure."""

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
# An identity lasts so long where the definition does not say.
STICKY_S, STICKY_REQUESTS = 600.0, 100


class ProxyUse(Model):
    """Which proxies, and for how long one visitor keeps theirs."""

    pool: Literal["none", "datacenter", "residential"] = Field(
        description="the class of proxy; none: no proxy"
    )
    sticky: Duration | None = Field(
        None,
        description="how long an identity (proxy, cookies, headers) lasts: 10m; 0: each page "
        "another",
    )
    requests: int | None = Field(
        None, ge=1, le=1_000_000, description="pages after which an identity ends at the latest"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.pool == NO_PROXY and (self.sticky is not None or self.requests is not None):
            refuse(
                "pool",
                "without a proxy there is no identity to keep (fix: remove sticky and requests)",
            )
        return self

    @property
    def sticky_s(self) -> float:
        """0: an identity is one page's. Residential ones last even where nothing is said."""
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
    """Pages that go another way than the rest of their site."""

    match: Regex = Field(description="a regular expression: pages in whose URL it is found")
    queue: Queue | None = Field(None, description="default: the site's")
    region: Region | None = Field(None, description="default: the site's; any: no matter where")
    priority: Priority | None = Field(None, description="default: the site's")

    @model_validator(mode="after")
    def _check_changes(self) -> Self:
        if self.queue is self.region is self.priority is None:
            refuse(
                "",
                "a route that changes nothing (fix: give it queue, region or priority, or remove "
                "it)",
            )
        return self

    @property
    def rule(self) -> RoutingRule:
        """Compiled. A URL that its pattern takes too long for goes the site's way."""
        pattern = compile_regex(self.match)

        def matches(url: str) -> bool:
            try:
                return pattern.search(url, timeout=MATCH_TIMEOUT_S) is not None
            except TimeoutError:
                return False

        priority = None if self.priority is None else scalars.parse_priority(self.priority)
        return RoutingRule(matches, self.queue, self.region, priority)
