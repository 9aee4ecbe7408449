"""Whether a shop is of a platform whose interface is open, and what that gives. Stores nothing."""

from __future__ import annotations

from dataclasses import dataclass

from scraper.domain import Kind, Product
from scraper.errors import FetchError
from scraper.extract.function_reader import PlatformReader
from scraper.extract.listing import LinkFilter
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.platforms import ADAPTERS
from scraper.plugins.platforms.adapter import Adapter, origin

# A currency's page and a page of products, with one to spare.
PAGES_MAX = 4


@dataclass(frozen=True, slots=True)
class OpenInterface:
    """What its first page of products gives; `more`: there are further pages."""

    name: str
    products: tuple[Product, ...]
    more: bool


async def open_interface(
    reader: PoliteReader, url: str, html: bytes
) -> tuple[OpenInterface | None, str]:
    """The interface of the platform that a page is a sign of, where it gives products; and a note
    where the page is one, and it does not."""
    lowered = html.lower()
    for name, adapter in ADAPTERS.items():
        if any(sign.lower() in lowered for sign in adapter.signs):
            found, why = await _first_products(reader, name, adapter, origin(url))
            if found is not None:
                return found, ""
            return None, f"it looks like {name}, whose interface is not open: {why}"
    return None, ""


async def _first_products(
    reader: PoliteReader, name: str, adapter: Adapter, shop: str
) -> tuple[OpenInterface | None, str]:
    rows = PlatformReader(name, LinkFilter(reader.context.site))
    url, why = shop + adapter.first, "it gives no product"
    for _ in range(PAGES_MAX):
        try:
            extracted = rows.read_rows(adapter, await reader.read(url, Kind.LISTING), url)
            why = "; ".join(extracted.problems) or why
        except FetchError as error:
            extracted, why = None, f"{error.outcome}: {error}"
        if extracted is not None and extracted.products:
            return OpenInterface(name, tuple(extracted.products), bool(extracted.links)), ""
        if extracted is not None and extracted.links:
            url = extracted.links[0].url
        elif (further := adapter.without(url)) is not None:
            url = shop + further.path
        else:
            break
    return None, why
