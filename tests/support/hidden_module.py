"""A module that cannot be imported, as if it were not installed."""

from __future__ import annotations

import sys

import pytest

from scraper import registry


def hide_module(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Hides the module until the test ends; plug-ins that need it are off for as long."""
    monkeypatch.setitem(sys.modules, name, None)
    for cached in (registry.found_plugins, registry.active_plugins):
        monkeypatch.setattr(registry, cached.__name__, cached.__wrapped__)
