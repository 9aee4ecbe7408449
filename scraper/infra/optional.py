"""Imports libraries that only make a program faster: the extra `speed` installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_first(*names: str) -> Any:
    """Returns the first of these modules that is installed, or None."""
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


# The standard library has it from Python 3.14 on.
zstd: Any = import_first("compression.zstd", "backports.zstd")
