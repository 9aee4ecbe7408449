"""Compares products' stored data with newly extracted data: the changes of one product, and the
sums over many. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scraper.domain import filled

# Examples of each field.
EXAMPLES = 3


class FieldChange(NamedTuple):
    """One key of one product's data, before and after; None: no value."""

    before: Any
    after: Any


@dataclass(slots=True)
class FieldSums:
    """One key of many products: how many stored (`before`) and extracted (`after`) products have a
    value, and how many gained, changed or lost one."""

    before: int = 0
    after: int = 0
    gained: int = 0
    changed: int = 0
    lost: int = 0
    examples: list[tuple[str, FieldChange]] = field(default_factory=list)

    def add(self, external_id: str, change: FieldChange) -> None:
        if change.before is None:
            self.gained += 1
        elif change.after is None:
            self.lost += 1
        else:
            self.changed += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append((external_id, change))


@dataclass(slots=True)
class Sums:
    """The number of stored (`known`) and extracted (`found`) products, and the sums of each key."""

    known: int = 0
    found: int = 0
    fields: dict[str, FieldSums] = field(default_factory=dict)

    def sums_of(self, name: str) -> FieldSums:
        sums = self.fields.get(name)
        if sums is None:
            sums = self.fields[name] = FieldSums()
        return sums

    def add_new(self, data: Mapping[str, Any]) -> None:
        """Adds a product that is not stored."""
        self.found += 1
        for name in filled(data):
            self.sums_of(name).after += 1

    def compare(
        self, external_id: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> dict[str, FieldChange]:
        """Adds a stored product. Returns its changes; an empty value equals a missing one."""
        self.known += 1
        self.found += 1
        old_names, new_names = set(filled(before)), set(filled(after))
        for name in old_names:
            self.sums_of(name).before += 1
        for name in new_names:
            self.sums_of(name).after += 1
        changes = {}
        for name in sorted(old_names | new_names):
            change = FieldChange(
                before[name] if name in old_names else None,
                after[name] if name in new_names else None,
            )
            if change.before != change.after:
                changes[name] = change
                self.sums_of(name).add(external_id, change)
        return changes
