"""Shops on a platform whose interface is open. Stores nothing."""

from __future__ import annotations

from dataclasses import dataclass

from scraper.domain import Kind, Product
from scraper.errors import FetchError
from scraper.extract.adapter import Adapter, PlatformAdapters, origin, read_stated_total
from scraper.extract.function_reader import AdapterReader
from scraper.extract.listing import LinkFilter
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.registry import find_service

# A page for the currency, a page of products, and two to spare.
PAGES_MAX = 4


@dataclass(frozen=True, slots=True)
class OpenInterface:
    """The products of the interface's first page; `more`: it has further pages. `stated`: how many
    products it says that it has."""

    name: str
    products: tuple[Product, ...]
    more: bool
    stated: int = 0

    @property
    def pages(self) -> int:
        """The least number of product pages."""
        return max(self.stated, len({product.data.get("url") for product in self.products}))


async def find_open_interface(
    reader: PoliteReader, url: str, html: bytes
) -> tuple[OpenInterface | None, str]:
    """Returns the interface of the platform that the page shows signs of, or a note on why it gives
    no products."""
    lowered = html.lower()
    adapters = find_service(PlatformAdapters)  # type: ignore[type-abstract]
    for name, adapter in adapters.items() if adapters is not None else ():
        if any(sign.lower() in lowered for sign in adapter.signs):
            interface, why = await _read_first_products(reader, name, adapter, origin(url))
            if interface is not None:
                return interface, ""
            return None, f"it looks like {name}, whose interface is not open: {why}"
    return None, ""


async def _read_first_products(
    reader: PoliteReader, name: str, adapter: Adapter, shop: str
) -> tuple[OpenInterface | None, str]:
    rows = AdapterReader(adapter, LinkFilter(reader.context.site))
    url, why, stated = shop + adapter.first, "it gives no products", 0
    for _ in range(PAGES_MAX):
        try:
            page = await reader.read(url, Kind.LISTING)
            extracted, stated = rows.read_rows(page, url), read_stated_total(page.headers) or 0
            why = "; ".join(extracted.problems) or why
        except FetchError as error:
            extracted, why = None, f"{error.outcome}: {error}"
        if extracted is not None and extracted.products:
            products, more = tuple(extracted.products), bool(extracted.links)
            return OpenInterface(name, products, more, stated), ""
        if extracted is not None and extracted.links:
            url = extracted.links[0].url
        elif (further := adapter.without(url)) is not None:
            url = shop + further.path
        else:
            break
    return None, why
