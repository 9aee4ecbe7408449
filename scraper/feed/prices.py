"""What became of prices: by how much they moved, in which currency. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Who shows products needs neither the feed nor what it reads with.
    from scraper.feed.reader import Change

BARS = "▁▂▃▄▅▆▇█"
CURRENCY = "_currency"
# The keys that products are called by, the usual ones first.
NAMES = ("name", "title")
# The keys that say whether a product can be bought.
STOCKS = ("in_stock", "availability", "stock")


@dataclass(frozen=True, slots=True)
class PriceMove:
    """A price that is another one than before, in the same currency."""

    field: str
    before: Decimal
    after: Decimal
    currency: str | None

    @property
    def percent(self) -> Decimal | None:
        return percent_change(self.before, self.after)


def percent_change(before: Any, after: Any) -> Decimal | None:
    """By how much a price moved, below 0 where it fell; None: one of them is no number, or it was
    nothing before."""
    old, new = as_number(before), as_number(after)
    return (new - old) / old * 100 if old and new is not None else None


def percent_text(share: Decimal | None) -> str:
    """>>> percent_text(Decimal("-14.14"))
    '-14.1%'
    """
    return "" if share is None else f"{share:+.1f}%"


def price_fields(data: Mapping[str, Any]) -> list[str]:
    """The fields of a product that are prices: those with a currency beside them."""
    return [name for name in data if f"{name}{CURRENCY}" in data]


def as_number(value: Any) -> Decimal | None:
    """A price as a number. Whole ones are read as int."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    return Decimal(value)


def price_moves(change: Change) -> list[PriceMove]:
    """The prices that a change moved. One whose currency is another one cannot be compared."""
    moves = []
    for name in price_fields(change.data):
        if name not in change.changed or f"{name}{CURRENCY}" in change.changed:
            continue
        before, after = as_number(change.before.get(name)), as_number(change.data.get(name))
        if before is not None and after is not None and before != after:
            moves.append(PriceMove(name, before, after, change.data[f"{name}{CURRENCY}"]))
    return moves


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The fields of a product that are others than before, by name; a currency that changed with
    its price stands beside that, and is left out."""
    names = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
    return [n for n in names if n not in {f"{price}{CURRENCY}" for price in names}]


def title_of(data: Mapping[str, Any]) -> str:
    """What people call a product; empty where no field is named so."""
    return next((str(data[name]) for name in NAMES if data.get(name)), "")


def stock_field(data: Mapping[str, Any]) -> str | None:
    """The field that says whether a product can be bought: true or false, or how many there are."""
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
    """A line of bars, the lowest value the lowest bar.

    >>> draw_sparkline([Decimal(1), Decimal(3), Decimal(2)])
    '▁█▄'
    """
    low, span = min(values, default=Decimal(0)), max(values, default=Decimal(0))
    span -= low
    last = len(BARS) - 1
    return "".join(BARS[int((value - low) / span * last) if span else 0] for value in values)
