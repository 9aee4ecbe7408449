"""Price alert rules, from definitions and from `alerts.yaml`: which changes of the feed match, and
the text of their alerts. Pure, except for reading the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from scraper.errors import ConfigError
from scraper.feed.market import ShopOffer
from scraper.feed.prices import (
    CURRENCY,
    STOCKS,
    as_number,
    format_amount,
    percent_change,
    percent_text,
    stock_field,
    title_of,
)
from scraper.feed.reader import Change
from scraper.feed.watched import names_product
from scraper.plugins.alerts.keys import WHEN, AlertRule
from scraper.sites.grammar import yaml12
from scraper.sites.grammar.scalars import parse_duration

RULES_MAX = 500
SIZE_MAX = 1_000_000


class PriceRule(AlertRule):
    """A rule with its site (None: all sites). A definition's rule is called SITE.NAME."""

    # The schema takes 40 ms, and most coordinators have no rule.
    model_config = ConfigDict(defer_build=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=124)]
    site: str | None = None

    @property
    def _when_match(self) -> re.Match[str]:
        match = WHEN.fullmatch(self.when)
        assert match is not None
        return match

    @property
    def default_field(self) -> str:
        """The field that the rule reads, unless a product's own stock field differs."""
        return self.field or (STOCKS[0] if self._when_match["stock"] else "price")

    def select_field(self, data: Mapping[str, Any]) -> str:
        """Returns the field that the rule reads of a product."""
        stock = stock_field(data) if self._when_match["stock"] and self.field is None else None
        return stock or self.default_field

    @property
    def lowest_days(self) -> int | None:
        """The number of days within which the price must be the lowest; None for other rules."""
        days = self._when_match["days"]
        return int(days) if days else None

    @property
    def market(self) -> str | None:
        """The event for a rule over all shops: `cheapest`, `no longer cheapest`, `undercut by 3%`
        or `back in stock anywhere`; None for other rules."""
        return self._when_match["market"]

    @property
    def undercut_percent(self) -> Decimal:
        return Decimal(self._when_match["undercut"] or 0)

    @property
    def is_about_price(self) -> bool:
        """Whether the rule compares prices of one shop."""
        when = self._when_match
        return self.field is None and not (when["event"] or when["stock"] or when["market"])

    @property
    def every_s(self) -> float:
        return parse_duration(self.every) if self.every else 0.0

    def field_to_look_up(self, change: Change) -> str | None:
        """Returns the rule's field if the version before has no value to compare with: none, or one
        in another currency. The caller then looks up the last known value."""
        key = self.select_field(change.data)
        if (
            self._when_match["event"]
            or change.event not in ("changed", "relisted")
            or key not in change.changed
            or change.data.get(key) is None
            or not self._applies_to(change)
        ):
            return None
        comparable = change.before.get(key) is not None and key + CURRENCY not in change.changed
        return None if comparable else key

    def match(self, change: Change, earlier: Any = None) -> str | None:
        """Returns the alert's text; None if the change does not match. `earlier` is the last known
        value in the same currency, for a `field_to_look_up`. With `lowest_days`, a match means only
        that the price fell: the caller compares it with earlier prices."""
        # A reverted product is as it was before.
        if change.event == "reverted" or not self._applies_to(change):
            return None
        when, key = self._when_match, self.select_field(change.data)
        if when["event"]:
            return change.event if change.event == when["event"] else None
        if change.event == "delisted":
            return None
        after = change.data.get(key)
        if when["stock"]:
            before = earlier if earlier is not None else change.before.get(key)
            if key not in change.changed or before is None or after is None:
                return None
            wanted = when["stock"] == "back in stock"
            return when["stock"] if bool(after) is wanted and bool(before) is not wanted else None
        return self._match_price(change, as_number(after), as_number(earlier))

    def _applies_to(self, change: Change) -> bool:
        return self.site in (None, change.site) and names_product(
            self.id, self.where, (change.id,), change.data
        )

    def _match_price(
        self, change: Change, after: Decimal | None, earlier: Decimal | None
    ) -> str | None:
        when, key = self._when_match, self.default_field
        currency = change.data.get(key + CURRENCY)
        moved = key in change.changed and key + CURRENCY not in change.changed
        latest = as_number(change.before.get(key))
        before = latest if moved and latest is not None else earlier
        if after is None or not (change.event == "new" or key in change.changed):
            return None
        shown = format_amount(after, currency)
        move = percent_change(before, after)
        if when["below"]:
            limit = Decimal(when["below"])
            if when["currency"] not in (None, currency) or after >= limit:
                return None
            # The alert is for the crossing of the limit: a currency that flickers, or a price that
            # was absent for a while, does not cross it again.
            previous = before if when["currency"] or latest is None else latest
            was_below = previous is not None and previous < limit
            return None if was_below else f"{key} {shown}, {self.when}"
        if before is None or before == after:
            return None
        if not when["changed"] and (after > before) is not (when["move"] == "rose"):
            return None
        if when["percent"] and (move is None or abs(move) < Decimal(when["percent"])):
            return None
        text = f"{key} {format_amount(before, currency)} → {shown}"
        text += f" ({percent_text(move)})" if move is not None else ""
        return text + (f", {self.when}" if self.lowest_days else "")


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule and a change that matches it, with the last known value if the version before has none
    to compare with. `id` is the same each time the alert is sent. `best`: the best offer of all
    shops, if several sell the product."""

    rule: PriceRule
    change: Change
    text: str
    earlier: Any = None
    best: ShopOffer | None = None

    @property
    def position(self) -> int:
        return self.change.cursor

    @property
    def crawl(self) -> int:
        return self.change.crawl

    @property
    def at(self) -> datetime:
        return self.change.at

    @property
    def id(self) -> str:
        return f"{self.rule.name}:{self.change.cursor}"

    @property
    def message(self) -> str:
        change = self.change
        title, best, text = title_of(change.data) or change.id, self.best, self.text
        if best is not None and best.site == change.site:
            text += "; the best price of all shops"
        elif best is not None:
            text += f"; best now {format_amount(best.price, best.currency)} at {best.site}"
        return f"{title} ({change.site}): {text} {change.url}"

    def _value_before(self, key: str) -> Any:
        """Returns the value in the version before, or the last known one if those two cannot be
        compared."""
        if self.earlier is not None or key + CURRENCY in self.change.changed:
            return self.earlier
        return self.change.before.get(key)

    def details(self) -> dict[str, Any]:
        """Returns what a webhook's program receives."""
        change, key = self.change, self.rule.select_field(self.change.data)
        return {
            "id": self.id,
            "rule": self.rule.name,
            "event": change.event,
            "site": change.site,
            "product": change.id,
            "name": title_of(change.data),
            "url": change.url,
            "field": key,
            "before": self._value_before(key),
            "after": change.data.get(key),
            "currency": change.data.get(key + CURRENCY),
            "cursor": change.cursor,
            "crawl": change.crawl,
            "at": change.at.isoformat(),
            "text": self.message,
        } | ({} if self.best is None else {"best": describe_best(self.best)})


def describe_best(best: ShopOffer) -> dict[str, Any]:
    """Returns the best offer as a webhook's program receives it."""
    return {"site": best.site, "price": best.price, "url": best.url}


_RULES: TypeAdapter[PriceRule] = TypeAdapter(PriceRule)


def load_rules(path: Path) -> list[PriceRule]:
    """Reads the rules of a file. Raises `ConfigError` with one line per problem."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"{path}: cannot be read: {reason} (fix: SCRAPER_ALERT_RULES names a file of rules)"
        ) from None
    return parse_rules(text, path)


def parse_rules(text: str, path: Path) -> list[PriceRule]:
    """Reads the text of a file of rules, as `load_rules` does."""
    try:
        parsed = yaml12.parse(text if len(text) <= SIZE_MAX else "")
    except yaml.YAMLError as error:
        line, sentence = yaml12.explain_error(error)
        raise ConfigError(f"{path}:{line}: {sentence}") from None
    problems = [f"{path}:{line}: {sentence}" for line, sentence in parsed.problems]
    if parsed.data is None and not problems and len(text) <= SIZE_MAX:
        # A file without rules yet, or with remarks alone.
        return []
    if not isinstance(parsed.data, list) or not 0 < len(parsed.data) <= RULES_MAX:
        raise ConfigError(
            f"{path}: must be a list of 1 to {RULES_MAX} rules "
            "(fix: - {name: bargains, when: below 10})"
        )
    rules: list[PriceRule] = []
    for index, entry in enumerate(parsed.data):
        where = f"{path}:{parsed.lines.get((index,), 1)}: rule {index + 1}"
        try:
            rule = _RULES.validate_python(entry)
        except ValidationError as error:
            problems += [f"{where}: {_explain_fault(fault)}" for fault in error.errors()]
            continue
        if any(rule.name == other.name for other in rules):
            problems.append(f"{where}: there is another rule {rule.name!r} (fix: rename one)")
        rules.append(rule)
    if problems:
        raise ConfigError("\n".join(problems))
    return rules


def site_rules(site: str, alerts: Iterable[Any]) -> list[PriceRule]:
    """Returns the rules of a definition's `alerts`."""
    entries = [alert.model_dump() if isinstance(alert, AlertRule) else alert for alert in alerts]
    return [
        _RULES.validate_python({**entry, "site": site, "name": f"{site}.{entry['name']}"})
        for entry in entries
    ]


def _explain_fault(fault: Any) -> str:
    key = ".".join(str(part) for part in fault["loc"][:2])
    if fault["type"] == "extra_forbidden":
        return f"{key}: unknown key (fix: {', '.join(PriceRule.model_fields)})"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{key}: {message}" if key else message
