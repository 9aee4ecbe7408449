"""`scraper.api` exports what the reference documents, and nothing that is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scraper import api
from tools.docs.python_api import PARTS

# `scraper.api` has functions of its own for these.
WRAPPED = {"read", "follow", "load"}


def test_every_name_is_there() -> None:
    assert [name for name in api.__all__ if getattr(api, name).__doc__ is None] == []
    with pytest.raises(AttributeError, match="has no attribute 'Spider'"):
        _ = api.Spider  # type: ignore[attr-defined]


def test_every_documented_name_is_exported() -> None:
    documented = {name for part in PARTS for name in part.names if "." not in name}
    assert documented - WRAPPED <= set(api.__all__)
    assert api.__all__ == sorted(api.__all__)


def test_no_plugin_is_imported_before_its_name_is_asked_for() -> None:
    code = (
        "import sys; from scraper import api\n"
        "assert 'scraper.plugins.functions.client' not in sys.modules\n"
        "assert api.Client.__name__ == 'Client'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=180)
