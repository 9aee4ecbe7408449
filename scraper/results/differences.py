"""What a page says differently from the stored product, field by field. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from scraper.domain import filled
from scraper.infra.database import dumps
from scraper.results.products import parse_data


class FieldDifference(NamedTuple):
    """A field whose value differs. `difference` is `changed`, `appeared` or `vanished`; `value` has
    the keys that the product would get."""

    field: str
    difference: str
    value: dict[str, Any]


def keys_of(name: str) -> tuple[str, str]:
    """Returns the keys that a field's value may have: a price has two."""
    return name, f"{name}_currency"


def value_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the part of a product's data that belongs to a field."""
    return {key: data[key] for key in keys_of(name) if key in data}


def find_differences(
    stored: Mapping[str, Any], data: Mapping[str, Any], own: Container[str] | None
) -> Iterator[FieldDifference]:
    """Yields how a page's data differs from the stored data. `own` names the fields whose value is
    the page's own, not a default; None counts every filled field."""
    names = stored.keys() | data.keys()
    for name in sorted(names):
        if name.endswith("_currency") and name.removesuffix("_currency") in names:
            continue
        before, after = value_of(stored, name), value_of(data, name)
        was_filled, is_filled = name in filled(before), name in filled(after)
        if was_filled and not (is_filled and (own is None or name in own)):
            if before != after:
                yield FieldDifference(name, "vanished", after)
        elif was_filled:
            if dumps(before) != dumps(after) and _is_change(before, after):
                yield FieldDifference(name, "changed", after)
        elif is_filled:
            yield FieldDifference(name, "appeared", after)


def _is_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Returns False if only the order of a mapping's keys differs, which PostgreSQL does not keep.
    (9.9 and 9.90 are two values.)"""
    nested = any(isinstance(value, dict | list) for value in after.values())
    return not nested or before != parse_data(dumps(after))
