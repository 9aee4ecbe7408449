"""Files that run with the package and lie beside it in a checkout: migrations, Flower's
configuration, example definitions. A wheel carries them in `scraper/shipped/`.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def path(name: str) -> Path:
    """Where `name` (such as `alembic`) is, installed or in a checkout."""
    installed = PACKAGE / "shipped" / name
    return installed if installed.exists() else PACKAGE.parent / name
