"""Price moves: by how much a price changed, in which currency. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Views of products need neither the feed nor its dependencies.
    from scraper.feed.reader import Change

BARS = "▁▂▃▄▅▆▇█"
CURRENCY = "_currency"
# The keys that name a product, the usual ones first.
NAMES = ("name", "title")
# The keys that say whether a product is available.
STOCKS = ("in_stock", "availability", "stock")


@dataclass(frozen=True, slots=True)
class PriceMove:
    """A price that changed within its currency."""

    field: str
    before: Decimal
    after: Decimal
    currency: str | None

    @property
    def percent(self) -> Decimal | None:
        return percent_change(self.before, self.after)


def percent_change(before: Any, after: Any) -> Decimal | None:
    """Returns by how many percent a price moved, below 0 if it fell. Returns None if one of the
    values is not a number, or the price was 0 before."""
    old, new = as_number(before), as_number(after)
    return (new - old) / old * 100 if old and new is not None else None


def percent_text(share: Decimal | None) -> str:
    """>>> percent_text(Decimal("-14.14"))
    '-14.1%'
    """
    return "" if share is None else f"{share:+.1f}%"


def price_fields(data: Mapping[str, Any]) -> list[str]:
    """Returns the fields of a product that are prices: those with a currency."""
    return [name for name in data if f"{name}{CURRENCY}" in data]


def as_number(value: Any) -> Decimal | None:
    """Returns a price as a number; whole numbers are stored as int."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    return Decimal(value)


def price_moves(change: Change) -> list[PriceMove]:
    """Returns the prices that a change moved. A price in a new currency cannot be compared."""
    moves = []
    for name in price_fields(change.data):
        if name not in change.changed or f"{name}{CURRENCY}" in change.changed:
            continue
        before, after = as_number(change.before.get(name)), as_number(change.data.get(name))
        if before is not None and after is not None and before != after:
            moves.append(PriceMove(name, before, after, change.data[f"{name}{CURRENCY}"]))
    return moves


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Returns the names of a product's fields that changed. A currency that changed with its price
    is left out."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    currencies = {f"{price}{CURRENCY}" for price in changed}
    return [name for name in changed if name not in currencies]


def title_of(data: Mapping[str, Any]) -> str:
    """Returns the name of a product, or an empty string if no field is one."""
    return next((str(data[name]) for name in NAMES if data.get(name)), "")


def stock_field(data: Mapping[str, Any]) -> str | None:
    """Returns the field that says whether a product is available, or how many there are."""
    return next((n for n in STOCKS if isinstance(data.get(n), bool | int | Decimal)), None)


def format_amount(value: Any, currency: str | None) -> str:
    """>>> format_amount(Decimal("8.50"), "EUR")
    '8.50 EUR'
    """
    if value is None:
        return ""
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return f"{text} {currency}" if currency else text


def draw_sparkline(values: Sequence[Decimal]) -> str:
    """Draws a line of bars; the lowest value is the lowest bar.

    >>> draw_sparkline([Decimal(1), Decimal(3), Decimal(2)])
    '▁█▄'
    """
    low, span = min(values, default=Decimal(0)), max(values, default=Decimal(0))
    span -= low
    last = len(BARS) - 1
    return "".join(BARS[int((value - low) / span * last) if span else 0] for value in values)
