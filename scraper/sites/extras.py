"""What a definition needs that is not installed everywhere: said when it is loaded, not when its first page fails. Pure."""

from __future__ import annotations

from importlib.util import find_spec

from scraper.sites.definition import Site

_MODULE = "curl_cffi"


def missing(site: Site) -> list[tuple[str, str]]:
    """(key, sentence) for each key whose extra is not installed here."""
    asked = [key for key, used in (("impersonate", site.impersonate), ("http2", site.http2)) if used]
    if not asked or find_spec(_MODULE) is not None:
        return []
    return [
        (key, f"needs {_MODULE}, which is not installed (mend: `pip install scraper[impersonate]`)") for key in asked
    ]
