"""What a definition needs that is not installed everywhere: said when it is loaded, not when its
first page fails. Pure."""

from __future__ import annotations

from importlib.util import find_spec

from scraper.sites.definition import Site

_MODULE = "curl_cffi"
_SEALS = "cryptography"


def missing(site: Site) -> list[tuple[str, str]]:
    """(key, sentence) for each key whose extra is not installed here."""
    asked = [(key, _MODULE, "impersonate") for key, used in _browsers(site) if used]
    if site.login is not None:
        asked.append(("login", _SEALS, "login"))
    return [
        (
            key,
            f"needs {module}, which is not installed (mend: `pip install "
            f"'celery-scraper[{extra}]'`)",
        )
        for key, module, extra in asked
        if find_spec(module) is None
    ]


def _browsers(site: Site) -> tuple[tuple[str, object], ...]:
    return ("impersonate", site.impersonate), ("http2", site.http2)
