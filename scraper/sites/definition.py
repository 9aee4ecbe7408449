"""`Site`: the validated definition of one shop. The schema of sites/*.yaml and of the snapshots in
the database. Pure.

A definition keeps what was written; properties with units in their names give the numbers
(`revisit_s`, `rate_per_s`). It never imports user code: `scraper.sites.functions` does that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from pydantic import BaseModel, model_validator

from scraper import registry
from scraper.domain import Kind
from scraper.rules import urls
from scraper.rules.escalation import build_ladder
from scraper.rules.quality import Tolerances
from scraper.rules.routing import ANY_REGION, RoutingPreferences
from scraper.sites.core_keys import CoreKeys
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import Problems
from scraper.sites.grammar.page_specs import Listing, ProductPage
from scraper.sites.grammar.routes import NO_PROXY, ProxyUse
from scraper.sites.plugin_keys import DefinitionKeys

# Keys that affect neither the request for a product page nor what is read from it: where pages are
# found, when and how often.
_NOT_READING = (
    *(
        "title",
        "tags",
        "enabled",
        "start",
        "sitemap",
        "hosts",
        "listing",
        "priority",
        "schedule",
        "timezone",
    ),
    *("rate", "concurrency", "burst", "revisit", "conditional", "robots"),
    *("limits", "quality"),
)
NOWHERE = "nowhere to start (fix: give `start:` or `sitemap:`)"
KeysT = TypeVar("KeysT", bound=DefinitionKeys)


class CoreSite(CoreKeys):
    """The keys of the core, and what follows from them."""

    @model_validator(mode="before")
    @classmethod
    def _drop_unused_keys(cls, data: Any) -> Any:
        """Drops the keys of inactive plug-ins that have their default value, as in definitions from
        the database."""
        if not isinstance(data, dict):
            return data
        defaults = registry.inactive_defaults()
        return {
            key: value
            for key, value in data.items()
            if key in cls.model_fields or key not in defaults or value != defaults[key]
        }

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = Problems()
        if not self.start and self.sitemap is None:
            problems.add("", NOWHERE)
        if self.start and self.listing is None:
            problems.add(
                "start", "start pages are listing pages, but `listing:` is missing (fix: add it)"
            )
        if self.sitemap is not None and self.sitemap.listings is not None and self.listing is None:
            problems.add(
                "sitemap.listings", "`listing:` is missing, which reads these pages (fix: add it)"
            )
        queues = self.queues
        if self.escalate and all(len(build_ladder(queue, self.escalate)) == 1 for queue in queues):
            start = " or ".join(sorted(queues))
            problems.add(
                "escalate",
                f"has no effect: pages start at {start} (fix: name a level above, or remove it)",
            )
        if self.cookies == "keep" and any(self.proxy_of(kind).pool != NO_PROXY for kind in Kind):
            problems.add(
                "cookies",
                "with a proxy, cookies belong to the identity (fix: remove `cookies`, and write "
                "`proxy: {pool: …, sticky: 10m}`)",
            )
        for part in type(self).__mro__:
            if issubclass(part, DefinitionKeys) and "check" in vars(part):
                part.check(cast("Site", self), problems)
        problems.raise_any()
        return self

    @property
    def sources(self) -> dict[str, Any]:
        """The sources of fields and links, by their keys."""
        sources: dict[str, Any] = {}
        named: list[tuple[str, Any]] = [
            (f"product.fields.{name}", spec) for name, spec in self.product.fields.items()
        ]
        if self.product.id is not None:
            named.append(("product.id", self.product.id))
        if self.product.items is not None:
            sources["product.items"] = self.product.items
        for key, source in named:
            sources[key] = source
            sources |= {f"{key}.any[{at}]": part for at, part in enumerate(source.any)}
        if self.listing is not None:
            for key in ("products", "listings", "next"):
                sources |= {
                    f"listing.{key}[{at}]": part
                    for at, part in enumerate(getattr(self.listing, key))
                }
        return sources

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy without the cached properties of the original."""
        copied = super().model_copy(update=update, deep=deep)
        for name in (
            "routing_preferences",
            "url_rules",
            "product_url_rules",
            "allowed_hosts",
            "content_hash",
            "reading",
            "conditional_s",
        ):
            copied.__dict__.pop(name, None)
        return copied

    @property
    def queues(self) -> set[str]:
        """The queues in which pages start."""
        return {self.queue_of(kind) for kind in Kind} | {
            rule.queue for rule in self.routes if rule.queue
        }

    def queue_of(self, kind: Kind) -> str:
        """Returns the queue for pages of this kind."""
        part = self._get_page_spec(kind)
        return (part and part.queue) or self.queue

    def proxy_of(self, kind: Kind) -> ProxyUse:
        """Returns the proxies for pages of this kind."""
        part = self._get_page_spec(kind)
        return (part and part.proxy) or self.proxy

    def _get_page_spec(self, kind: Kind) -> Listing | ProductPage | None:
        return self.product if kind is Kind.PRODUCT else self.listing

    @property
    def starts(self) -> tuple[str, ...]:
        return (*self.start, *(self.sitemap.urls if self.sitemap else ()))

    @property
    def priority_number(self) -> int:
        return scalars.parse_priority(self.priority)

    @property
    def rate_per_s(self) -> float | None:
        """The whole fleet's requests to one host in a second, or None if unlimited."""
        return scalars.parse_rate(self.rate)

    @property
    def revisit_s(self) -> float:
        """The shortest time after which a product page is fetched again."""
        return self.revisit.bounds.min_s

    @cached_property
    def conditional_s(self) -> float:
        """How long "not modified" is trusted for a product page; 0: pages are always fetched."""
        return scalars.parse_duration(self.conditional)

    @property
    def tolerances(self) -> Tolerances:
        """The site's tolerances for `scraper.rules.quality`."""
        fields = self.product.all_fields
        return self.quality.tolerances({name: vars(spec) for name, spec in fields.items()})

    @cached_property
    def routing_preferences(self) -> RoutingPreferences:
        """The site's preferences for `scraper.rules.routing.choose_route`."""
        capabilities = {kind: self.queue_of(kind) for kind in Kind}
        rules = tuple(route.rule for route in self.routes)
        return RoutingPreferences(
            capabilities, self.region or ANY_REGION, self.priority_number, rules, self.escalate
        )

    @cached_property
    def url_rules(self) -> urls.UrlRules:
        return urls.UrlRules(
            tuple(self.strip_params), tuple(self.keep_params), self.trailing_slash == "strip"
        )

    @cached_property
    def product_url_rules(self) -> urls.UrlRules:
        """The rules for URLs of product pages, whatever names them."""
        return replace(self.url_rules, strip=(*self.strip_params, *self.product.strip_params))

    @cached_property
    def allowed_hosts(self) -> frozenset[str]:
        """The hosts that belong to the site, with their subdomains (`urls.belongs_to`)."""
        given = [urls.host_of(url) for url in self.starts]
        return frozenset((*map(_without_www, given), *self.hosts))

    @property
    def private_hosts(self) -> frozenset[tuple[str, int | None]]:
        """(name, port) of the hosts that may have private addresses; None means every port. A start
        URL counts with its own port, or with the ports of http and https."""
        if self.allow_private is not True:
            return frozenset()
        hosts: set[tuple[str, int | None]] = set(map(urls.split_host, self.hosts))
        for url in self.starts:
            name, port = urls.split_host(_without_www(urls.host_of(url)))
            ports = urls.DEFAULT_PORTS.values() if port is None else [port]
            hosts.update((name, port) for port in ports)
        return frozenset(hosts)

    def of(self, keys: type[KeysT]) -> KeysT:
        """Returns this site's keys of a plug-in, by the plug-in's class of keys."""
        assert isinstance(self, keys), f"{keys.__name__} belongs to a plug-in that is off"
        return self

    def owns(self, url: str) -> bool:
        """Returns whether the URL is on one of the site's hosts."""
        return urls.belongs_to(urls.host_of(url), self.allowed_hosts)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON: equal for equal definitions, in any process."""
        data = json.dumps(
            self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True
        )
        return hashlib.sha256(data.encode()).hexdigest()

    @cached_property
    def reading(self) -> str:
        """The canonical JSON of the keys that may affect which product a page gives."""
        excluded = {*_NOT_READING, *_list_other_keys(type(self))}
        data = self.model_dump(mode="json", exclude=excluded)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _list_other_keys(site: type[BaseModel]) -> set[str]:
    """Returns the plug-ins' keys that do not affect what a product page gives."""
    parts = [part for part in site.__mro__ if issubclass(part, DefinitionKeys)]
    return {
        key for part in parts for key in part.__annotations__ if key not in part.reading_keys
    } & site.model_fields.keys()


if TYPE_CHECKING:

    class Site(CoreSite):
        """One shop, with the keys of the core and of the plug-ins that are on."""

else:
    Site = registry.extended("Site", CoreSite, "keys")


def plugin_places() -> dict[str, type[BaseModel]]:
    """Returns the models of the plug-ins' mappings, by dotted key."""
    parts = [part for part in Site.__mro__ if issubclass(part, DefinitionKeys)]
    return {place: model for part in parts for place, model in part.places.items()}


def _without_www(host: str) -> str:
    bare = host.removeprefix("www.")
    return bare if "." in bare else host
