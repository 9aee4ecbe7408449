"""What the sample shop sells, compared with exported rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

TIMES = ("first_seen_at", "changed_at", "fetched_at", "delisted_at")


def as_truth(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the shop shows it: decimals as text with every digit, no times."""
    return {
        name: str(value) if isinstance(value, Decimal) else value
        for name, value in row.items()
        if name not in TIMES
    }
