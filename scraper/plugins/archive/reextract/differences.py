"""What a product's data was and what it would be, field by field: one product's changes, and the
sums over many. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scraper.domain import filled

EXAMPLES = 3  # a field


class FieldChange(NamedTuple):
    """One key of one product's data, before and after; None stands for nothing."""

    before: Any
    after: Any


@dataclass(slots=True)
class FieldSums:
    """One key over many products: on how many of those known, and of those extracted now, it held
    something; how many gained, changed or lost a value."""

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
    """Products compared: `known` before, `found` now, and their keys."""

    known: int = 0
    found: int = 0
    fields: dict[str, FieldSums] = field(default_factory=dict)

    def of(self, name: str) -> FieldSums:
        sums = self.fields.get(name)
        if sums is None:
            sums = self.fields[name] = FieldSums()
        return sums

    def new(self, data: Mapping[str, Any]) -> None:
        """A product that was not known."""
        self.found += 1
        for name in filled(data):
            self.of(name).after += 1

    def compare(
        self, external_id: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> dict[str, FieldChange]:
        """A product that was known. Returns what changes of it: nothing and nothing at all are the
        same."""
        self.known += 1
        self.found += 1
        held, holds = set(filled(before)), set(filled(after))
        for name in held:
            self.of(name).before += 1
        for name in holds:
            self.of(name).after += 1
        changes = {}
        for name in sorted(held | holds):
            change = FieldChange(
                before[name] if name in held else None, after[name] if name in holds else None
            )
            if change.before != change.after:
                changes[name] = change
                self.of(name).add(external_id, change)
        return changes
