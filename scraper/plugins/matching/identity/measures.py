"""Measures in titles: pack sizes, capacities and unit prices."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

# A unit as written, to its base unit and how many base units it is.
UNITS: dict[str, tuple[str, Decimal]] = {
    word: (base, Decimal(factor))
    for base, factor, words in (
        ("l", "1", "l liter litre liters litres litro litri litros ltr lt"),
        ("l", "0.001", "ml milliliter millilitre"),
        ("l", "0.01", "cl"),
        ("l", "0.1", "dl"),
        ("l", "0.0295735", "floz fl.oz"),
        ("kg", "1", "kg kilo kilogramm kilogram kilograms kgs"),
        ("kg", "0.001", "g gr gramm gram grams gramme grammes"),
        ("kg", "0.000001", "mg"),
        ("kg", "0.0283495", "oz ounce ounces"),
        ("kg", "0.453592", "lb lbs pound pounds"),
        ("gb", "1", "gb go"),
        ("gb", "1000", "tb"),
        ("gb", "0.001", "mb"),
        ("inch", "1", "inch zoll inches pouces pollici \" ″ ''"),
        ("m", "1", "m meter metre meters"),
        ("m", "0.01", "cm"),
        ("m", "0.001", "mm"),
        ("w", "1", "w watt watts"),
        ("v", "1", "v volt volts"),
        ("mah", "1", "mah"),
        ("ghz", "1", "ghz"),
        ("mhz", "1", "mhz"),
        ("rpm", "1", "rpm"),
    )
    for word in words.split()
}
# The units in which shops quote a unit price.
PRICED_UNITS = frozenset(("l", "kg", "m"))
_UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_NUMBER = r"\d{1,6}(?:[.,]\d{1,3})?"
_MEASURE = re.compile(
    rf"(?<![\w.,\-/])(?:(?P<times>\d{{1,3}})\s?[x×*]\s?)?(?P<number>{_NUMBER})\s?-?"
    rf"(?P<unit>{_UNIT})(?!\w)",
    re.I,
)
# Of more modules a kit does not consist: 300x is how fast a memory card is.
KIT_MAX = 16
# Generations of mobile networks, which look like weights.
_NETWORKS = ("3g", "4g", "5g")
_PACK = re.compile(
    r"(?:\b(?:pack|pk|set|box|case|lot|bundle|confezione|paquete)\s?(?:of|de|da|à|x)?\s?(?P<a>\d{1,4})\b"
    r"|(?<![\w./-])(?P<b>\d{1,4})\s?-?(?:er|pack|pk|pcs|pieces|discs?|stk|stück|stuck|count|ct|pezzi|pièces"
    r"|unidades)\b(?:[- ]?(?:pack|packung|set))?"
    r"|^\s*(?P<c>\d{1,3})\s?[x×](?=\s))",
    re.I,
)
_PER = re.compile(
    rf"(?P<price>\d{{1,6}}(?:[.,]\d{{1,3}})?)\s?(?:€|eur|\$|usd|£|gbp|chf|\w{{2,3}})?\s?(?:/|pro|per|je|par"
    rf"|al|por|à)\s?(?P<number>{_NUMBER})?\s?(?P<unit>{_UNIT})(?!\w)",
    re.I,
)


class Measures(NamedTuple):
    """The measures of a title: `values` as "unit:amount", how many pieces the pack has, and what
    the pack holds in all, in l, kg or m."""

    values: frozenset[str]
    pack: int
    amount: Decimal | None
    unit: str | None


class UnitPrice(NamedTuple):
    """A price per litre, kilogram, metre or piece."""

    price: Decimal
    unit: str


def read_measures(title: str) -> Measures:
    """Returns the measures that a title names.

    >>> read_measures("Cola 6 x 330 ml")[1:]
    (6, Decimal('1.980'), 'l')
    """
    values: set[str] = set()
    amounts: dict[str, Decimal] = {}
    pack = 1
    rest = title
    for match in _MEASURE.finditer(title):
        number = _parse_number(match["number"])
        if not number or match[0].lower() in _NETWORKS:
            continue
        base, factor = UNITS[match["unit"].lower()]
        size = number * factor
        times = int(match["times"] or 1)
        unit_word = match["unit"].lower()
        if unit_word == "mb" and number % 256 == 0:
            size = number / 1024
        if base == "inch" or unit_word in ("cm", "mm"):
            # 6 x 8 inches is how large one thing is.
            times = 1
        if base == "gb" and times <= KIT_MAX:
            # A kit of memory is as large as all of its modules.
            size *= times
        elif base != "gb":
            pack = max(pack, times)
        values.add(f"{base}:{size.normalize():f}")
        amounts.setdefault(base, size)
        rest = rest.replace(match[0], " ", 1)
    for match in _PACK.finditer(rest):
        count = int(match["a"] or match["b"] or match["c"])
        if 1 < count <= 5000:
            pack = max(pack, count)
            break
    unit = next((base for base in amounts if base in PRICED_UNITS), None)
    # Several lengths are the size of one thing, not what is sold by the metre.
    if unit == "m" and (sum(value.startswith("m:") for value in values) > 1 or amounts["m"] < 1):
        unit = None
    amount = amounts[unit] * pack if unit else None
    return Measures(frozenset(values), pack, amount, unit)


def unit_price(price: Decimal | None, measures: Measures, quoted: str = "") -> UnitPrice | None:
    """Returns what one litre, kilogram, metre or piece costs: as the page quotes it, or the price
    divided by what the title says is in the pack.

    >>> unit_price(None, read_measures("Honig"), "1,49 € / 100 g")
    UnitPrice(price=Decimal('14.9'), unit='kg')
    """
    match = _PER.search(quoted)
    if match is not None:
        stated = _parse_number(match["price"])
        base, factor = UNITS[match["unit"].lower()]
        count = _parse_number(match["number"] or "1")
        if stated is not None and count:
            return UnitPrice((stated / (count * factor)).normalize(), base)
    if price is None:
        return None
    if measures.amount is not None and measures.unit is not None:
        return UnitPrice(round(price / measures.amount, 4), measures.unit)
    if measures.pack > 1:
        return UnitPrice(round(price / measures.pack, 4), "piece")
    return None


def _parse_number(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "."))
    except InvalidOperation:
        return None
