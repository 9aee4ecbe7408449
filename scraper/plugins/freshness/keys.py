"""`budget:`, `fresh:` and `weight:` in a definition. Pure.

budget: 20000/d                  # requests of all kinds, a day; or several limits:
budget: {requests: 20000/d, bytes: 5GB/d, proxy: 3 USD/d, proxy_price: 4 USD/GB}
fresh: 95% within 12h            # this share of products is true, or was within that time
weight: [{field: category, value: Sale, weight: 3}]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scraper.feed.watched import WatchRule, names_product
from scraper.plugins.freshness.rules.limits import GB, Used
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import (
    Duration,
    FieldName,
    Model,
    Problems,
    Share,
    Text,
    number_to_text,
    refuse,
    run_check,
)
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site

DAY_S = 86_400.0
# The weight of a product that a rule of price alerts names, if no rule of `weight` does.
WATCHED_WEIGHT = 3.0
_SIZES = {"KB": 1e3, "MB": 1e6, "GB": GB, "TB": 1e12}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]B)\s*/\s*d(?:ay)?").fullmatch
_MONEY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]{3})\s*/\s*d(?:ay)?").fullmatch
_PRICE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]{3})\s*/\s*(GB|request)").fullmatch
_PROMISE = re.compile(r"(\S+)\s+within\s+(\S+)").fullmatch


def requests_a_day(text: str) -> float:
    """Returns the requests a day of a budget: `20000/d`."""
    if "/" not in text:
        raise ValueError(f"{text!r} is not a budget (fix: requests and a time, as in `20000/d`)")
    rate = scalars.parse_rate(text)
    assert rate is not None
    return rate * DAY_S


def bytes_a_day(text: str) -> float:
    """Returns the bytes a day of a budget: `5GB/d`."""
    match = _BYTES(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"{text!r} is not a size a day (fix: KB, MB, GB or TB, as in `5GB/d`)")
    return float(match[1]) * _SIZES[match[2]]


def money_a_day(text: str) -> tuple[float, str]:
    """Returns the money a day of a budget, and its currency: `3 USD/d`."""
    match = _MONEY(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"{text!r} is not money a day (fix: with its currency, as in `3 USD/d`)")
    return float(match[1]), match[2]


def price_of_proxies(text: str) -> tuple[float, str, str]:
    """Returns a price, its currency and its unit: `4 USD/GB` or `0.001 USD/request`."""
    match = _PRICE(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(
            f"{text!r} is not a price of proxies (fix: `4 USD/GB`, or `0.001 USD/request`)"
        )
    return float(match[1]), match[2], match[3]


def _check_positive(parse: Any, text: str) -> str:
    if parse(text) <= 0:
        raise ValueError(f"{text!r} promises nothing (fix: `95% within 12h`)")
    return text


def _expand_budget(value: Any) -> Any:
    """Expands `20000/d`."""
    value = number_to_text(value)
    return {"requests": value} if isinstance(value, str) else value


def _split_promise(value: Any) -> Any:
    """Expands `95% within 12h`."""
    if not isinstance(value, str):
        return value
    match = _PROMISE(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a promise (fix: a share and a time: `95% within 12h`)")
    return {"share": match[1], "within": match[2]}


class PlanBudget(Model):
    """What a day may use. The tightest limit counts."""

    requests: Annotated[Text, AfterValidator(partial(run_check, requests_a_day))] | None = Field(
        None, description="requests of all kinds: 20000/d"
    )
    bytes: Annotated[str, AfterValidator(partial(run_check, bytes_a_day))] | None = Field(
        None, description="what responses may have: 5GB/d"
    )
    proxy: Annotated[str, AfterValidator(partial(run_check, money_a_day))] | None = Field(
        None, description="what proxies may cost: 3 USD/d"
    )
    proxy_price: Annotated[str, AfterValidator(partial(run_check, price_of_proxies))] | None = (
        Field(None, description="what they cost: 4 USD/GB, or 0.001 USD/request")
    )

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.requests is None and self.bytes is None and self.proxy is None:
            raise ValueError("no limit (fix: `requests: 20000/d`, `bytes: 5GB/d` or `proxy:`)")
        if (self.proxy is None) is not (self.proxy_price is None):
            refuse("proxy", "`proxy` and `proxy_price` go together (fix: `proxy_price: 4 USD/GB`)")
        if self.proxy is not None and self.proxy_price is not None:
            currency, other = money_a_day(self.proxy)[1], price_of_proxies(self.proxy_price)[1]
            if currency != other:
                refuse("proxy_price", f"it is in {other}, `proxy` in {currency} (fix: one of them)")
        return self

    @property
    def is_measured(self) -> bool:
        """True if what requests use must be known."""
        return self.bytes is not None or self.proxy is not None

    @property
    def proxy_a_day(self) -> float | None:
        return None if self.proxy is None else money_a_day(self.proxy)[0]

    def price(self, used: Used) -> float:
        """Returns what proxies cost."""
        if self.proxy_price is None:
            return 0.0
        price, _, unit = price_of_proxies(self.proxy_price)
        return used.money(price, 0.0) if unit == "request" else used.money(0.0, price)


class FreshPromise(Model):
    """What is promised of a site's products."""

    share: Annotated[Share, AfterValidator(partial(_check_positive, scalars.parse_share))] = Field(
        "95%", description="of products, by weight"
    )
    within: Annotated[
        Duration, AfterValidator(partial(_check_positive, scalars.parse_duration))
    ] = Field(description="what is stored is true, or was so long ago: 12h")
    looked: Duration | None = Field(
        None, description="every page is looked at within this time: 7d; default: not promised"
    )


class WeightRule(Model):
    """Products that count more, or less."""

    field: FieldName = Field(description="a field of the product")
    value: Text | None = Field(None, description="the field's value; default: any, but false")
    over: float | None = Field(None, description="or: the number that the field exceeds")
    weight: float = Field(ge=0.01, le=1000, description="1 is an ordinary product's")

    def matches(self, data: Mapping[str, Any]) -> bool:
        value = data.get(self.field)
        if self.over is not None:
            return isinstance(value, int | float) and value > self.over
        if self.value is not None:
            return str(value).casefold() == self.value.casefold()
        return bool(value)


class FreshnessKeys(DefinitionKeys):
    budget: Annotated[
        PlanBudget | None,
        BeforeValidator(_expand_budget, json_schema_input_type=str | PlanBudget | None),
    ] = Field(
        None,
        description="requests a day, of all kinds: 20000/d, or several limits; default: what "
        "`fresh` needs",
    )
    fresh: Annotated[
        FreshPromise | None,
        BeforeValidator(_split_promise, json_schema_input_type=str | FreshPromise | None),
    ] = Field(None, description="how true products are kept: 95% within 12h; default: no promise")
    weight: tuple[WeightRule, ...] = Field(
        (),
        description="products that count more than others; the first rule that matches counts; "
        "default: 3 for products that a price alert names by `id` or `where`, else 1",
    )

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        keys = site.of(cls)
        if keys.weight and keys.budget is None and keys.fresh is None:
            problems.add("weight", "nothing is planned (fix: add `budget: 20000/d`)")
        dedup = getattr(site, "dedup", None)
        if keys.is_planned and dedup is not None and dedup.by == "bloom":
            problems.add(
                "budget" if keys.budget else "fresh",
                "a filter forgets the pages that a plan visits (fix: `dedup: exact`)",
            )

    @staticmethod
    def is_read_whole(site: Site) -> bool:
        """Returns whether each crawl reads a platform's interface whole, and its products' pages
        once, so that there is nothing to visit."""
        return getattr(site, "platform", None) is not None

    @property
    def is_planned(self) -> bool:
        return self.budget is not None or self.fresh is not None

    @property
    def is_measured(self) -> bool:
        """True if what the site's requests use must be known."""
        return self.budget is not None and self.budget.is_measured

    @property
    def least_visits(self) -> float:
        """The least visits of a page a day."""
        looked = self.fresh.looked if self.fresh else None
        looked_s = scalars.parse_duration(looked) if looked else 0
        return DAY_S / looked_s if looked_s else 0.0

    @property
    def promised_share(self) -> float | None:
        """The promised share of products."""
        return scalars.parse_share(self.fresh.share) if self.fresh else None

    @property
    def promised_days(self) -> float:
        """The promised age of what is stored, in days."""
        return scalars.parse_duration(self.fresh.within) / DAY_S if self.fresh else 0.0

    def weigh(
        self, data: Mapping[str, Any], ids: Collection[str] = (), watched: Sequence[WatchRule] = ()
    ) -> float:
        """Returns the weight of a page with these products and the data of the first one.

        >>> FreshnessKeys().weigh({"brand": "Lux"}, ["7"], [WatchRule(where={"brand": "Lux"})])
        3.0
        """
        rules = (rule.weight for rule in self.weight if rule.matches(data))
        alerts = any(names_product(rule.id, rule.where, ids, data) for rule in watched)
        return next(rules, WATCHED_WEIGHT if alerts else 1.0)
