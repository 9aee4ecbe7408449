"""Recorded pages of a site, each with what the definition gives on it: `sites/NAME.pages/`.

Read again without the network, they show what a change of the definition changes. Of a response,
only the body, the URL and the content type are kept, without the secrets in our settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from scraper.domain import Extracted, Fetched, Kind, as_json
from scraper.extract import FunctionFailed, TooSlow
from scraper.extract.extractor import compile_site
from scraper.infra.redaction import passwords_in, redact
from scraper.plugins.author.supervision import record_page
from scraper.registry import plugin_hooks
from scraper.settings import Settings
from scraper.sites.definition import Site

# A shorter secret may be on a page by chance.
SECRET_CHARS_MIN = 6
_SECRET_HEADER = re.compile(r"auth|cookie|token|key|secret|session", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Record:
    """A page, and what its definition gave. `asked`: its URL in the frontier."""

    kind: Kind
    asked: str
    page: Fetched
    expected: dict[str, Any]


def make_records(
    site: Site, settings: Settings, pages: Iterable[tuple[str, Kind, Fetched]]
) -> list[Record]:
    """Returns a record of each page once, without secrets. `pages`: as they were asked for."""
    secrets = list_secrets(settings, site)
    records: dict[str, Record] = {}
    for url, kind, page in pages:
        kept, asked = _remove_secrets(page, secrets), redact(url)
        expected = read_page(site, kind, asked, kept, settings.site_function_modules)
        records[asked] = Record(kind, asked, kept, expected)
    return list(records.values())


def read_page(
    site: Site, kind: Kind, asked: str, page: Fetched, allowed: tuple[str, ...]
) -> dict[str, Any]:
    """Returns what the definition gives on the page, as JSON.

    That is `products` and `listings`, the links of a listing or sitemap; or `rows` of a product
    page, each with `id` and `data`. A page that a crawl would not store has no rows.
    """
    record_page(asked)
    try:
        extracted = compile_site(site, allowed).extract(kind, page, page_url=asked, depth=1)
    except (FunctionFailed, TooSlow) as error:
        extracted = Extracted(problems=[str(error)], complete=False)
    if kind is Kind.PRODUCT:
        products = extracted.products if extracted.complete else []
        given: dict[str, Any] = {
            "rows": [{"id": product.external_id, "data": product.data} for product in products]
        }
    else:
        given = {
            "products": [link.url for link in extracted.links if link.kind is Kind.PRODUCT],
            "listings": [link.url for link in extracted.links if link.kind is not Kind.PRODUCT],
        }
    values: dict[str, Any] = json.loads(as_json(given))
    return values


def list_secrets(settings: Settings, site: Site) -> list[str]:
    """Returns what no recorded page may contain, the longest first."""
    values = {
        password
        for url in (settings.postgres_url, settings.valkey_url, settings.celery_broker_url)
        for password in passwords_in(url)
    }
    values |= {value for name, value in site.headers.items() if _SECRET_HEADER.search(name)}
    for hooks in plugin_hooks().values():
        values |= set(hooks.secret_values(settings))
    return sorted(
        (value for value in values if len(value) >= SECRET_CHARS_MIN), key=len, reverse=True
    )


def _remove_secrets(page: Fetched, secrets: Collection[str]) -> Fetched:
    def clean(body: bytes) -> bytes:
        for secret in secrets:
            body = body.replace(secret.encode(), b"***")
        return body

    return Fetched(
        redact(page.url),
        200,
        {key: value for key, value in page.headers.items() if key == "content-type"},
        clean(page.body),
        captured={key: tuple(map(clean, bodies)) for key, bodies in page.captured.items()},
    )
