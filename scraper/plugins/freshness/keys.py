"""`budget:`, `fresh:` and `weight:` in a definition. Pure.

budget: 20000/d                  # requests of all kinds, a day
fresh: 95% within 12h            # this share of products is true, or was within that time
weight: [{field: category, value: Sale, weight: 3}]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from scraper.feed.watched import WatchRule
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import Duration, FieldName, Model, Problems, Share, Text
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site

DAY_S = 86_400.0
# The weight of a product that a rule of price alerts names, if no rule of `weight` does.
WATCHED_WEIGHT = 3.0
_PROMISE = re.compile(r"(\S+)\s+within\s+(\S+)").fullmatch


def requests_a_day(text: str) -> float:
    """Returns the requests a day of a budget: `20000/d`."""
    if "/" not in text:
        raise ValueError(f"{text!r} is not a budget (fix: requests and a time, as in `20000/d`)")
    rate = scalars.parse_rate(text)
    assert rate is not None
    return rate * DAY_S


def _check_budget(text: str) -> str:
    requests_a_day(text)
    return text


def _check_positive(parse: Any, text: str) -> str:
    if parse(text) <= 0:
        raise ValueError(f"{text!r} promises nothing (fix: `95% within 12h`)")
    return text


def _split_promise(value: Any) -> Any:
    """Expands `95% within 12h`."""
    if not isinstance(value, str):
        return value
    match = _PROMISE(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a promise (fix: a share and a time: `95% within 12h`)")
    return {"share": match[1], "within": match[2]}


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
    budget: Annotated[Text, AfterValidator(_check_budget)] | None = Field(
        None, description="requests a day, of all kinds: 20000/d; default: what `fresh` needs"
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

    @property
    def is_planned(self) -> bool:
        return self.budget is not None or self.fresh is not None

    @property
    def budget_a_day(self) -> float | None:
        return None if self.budget is None else requests_a_day(self.budget)

    @property
    def least_visits(self) -> float:
        """The least visits of a page a day."""
        looked = self.fresh.looked if self.fresh else None
        looked_s = scalars.parse_duration(looked) if looked else 0
        return DAY_S / looked_s if looked_s else 0.0

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
        alerts = any(is_watched(rule, data, ids) for rule in watched)
        return next(rules, WATCHED_WEIGHT if alerts else 1.0)


def is_watched(rule: WatchRule, data: Mapping[str, Any], ids: Collection[str]) -> bool:
    """Returns whether a rule names a product of a page."""
    return (rule.id is None or rule.id in ids) and all(
        data.get(field) == value for field, value in rule.where.items()
    )
