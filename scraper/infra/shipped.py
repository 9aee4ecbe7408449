"""Finds files that run with the package but lie outside it, such as migrations and Flower's
configuration. A checkout has them next to the package, a wheel in `scraper/shipped/`.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def path(name: str) -> Path:
    """Returns the path of `name` (such as `alembic`), installed or in a checkout."""
    installed = PACKAGE / "shipped" / name
    return installed if installed.exists() else PACKAGE.parent / name
