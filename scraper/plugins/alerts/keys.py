"""The YAML keys of price alert rules, in a definition or in `alerts.yaml`. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from scraper.sites.grammar.model import STRINGS, Model
from scraper.sites.grammar.scalars import parse_duration
from scraper.sites.plugin_keys import DefinitionKeys

ALERTS_MAX = 100
WHEN = re.compile(
    r"(?P<event>new|delisted|relisted)|(?P<stock>back in stock|sold out)"
    r"|below (?P<below>\d+(?:\.\d+)?)(?: (?P<currency>[A-Z]{3}))?"
    r"|(?P<move>fell|rose)(?: (?P<percent>\d+(?:\.\d+)?)\s*%)?|(?P<changed>changed)"
    r"|lowest in (?P<days>[1-9]\d{0,2}) days?"
    r"|(?P<market>cheapest|no longer cheapest|back in stock anywhere"
    r"|undercut(?: by (?P<undercut>\d+(?:\.\d+)?)\s*%)?)"
)
EVENTS = (
    "below 10, below 10 EUR, fell, fell 5%, rose, rose 5%, changed, lowest in 30 days, back in "
    "stock, sold out, new, delisted, relisted; over all shops: cheapest, no longer cheapest, "
    "undercut by 3%, back in stock anywhere"
)
# The name of a rule, or of a line in the list of recipients.
_NAME, _NAME_MAX = r"[A-Za-z0-9][\w-]", 40
RECIPIENT = rf"{_NAME}{{0,{_NAME_MAX - 1}}}"
_RecipientName = Annotated[str, Field(pattern=f"^{_NAME}*$", max_length=_NAME_MAX)]


def _check_when(text: str) -> str:
    if not WHEN.fullmatch(text):
        raise ValueError(f"{text!r} is not an event (fix: {EVENTS})")
    return text


def _check_duration(text: str) -> str:
    if parse_duration(text) < 1:
        raise ValueError("it must be at least one second")
    return text


class AlertRule(Model):
    """One rule of price alerts."""

    name: str = Field(pattern=f"^{_NAME}*$", max_length=60, description="the name of the rule")
    when: Annotated[str, AfterValidator(_check_when)] = Field(description=EVENTS)
    id: str | None = Field(None, description="only this product")
    where: dict[str, StrictBool | StrictInt | StrictStr] = Field(
        default_factory=dict, max_length=20, description="fields and their required values"
    )
    field: str | None = Field(None, description="the field; default: price, or the stock field")
    every: Annotated[str, AfterValidator(_check_duration)] | None = Field(
        None, description="send a digest: one message per 1d, 1h"
    )
    to: Annotated[tuple[_RecipientName, ...], STRINGS] = Field(
        (), max_length=20, description="names of recipients; default: recipients without a name"
    )

    @model_validator(mode="after")
    def check_market(self) -> AlertRule:
        """Raises `ValueError` for keys that a rule over all shops does not have."""
        match = WHEN.fullmatch(self.when)
        if match is not None and match["market"] and (self.where or self.field):
            raise ValueError(f"`where` and `field` do not go with {self.when!r} (fix: id)")
        return self


def check_alerts(alerts: tuple[AlertRule, ...]) -> tuple[AlertRule, ...]:
    """Returns the rules. Raises `ValueError` if two of them share a name."""
    names = [alert.name for alert in alerts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two rules are called {name!r} (fix: rename one)")
    return alerts


class AlertsKeys(DefinitionKeys):
    alerts: Annotated[tuple[AlertRule, ...], AfterValidator(check_alerts)] = Field(
        (), max_length=ALERTS_MAX, description="rules of price alerts"
    )
