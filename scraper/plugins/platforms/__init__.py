"""Shop platforms that give their products by an interface of their own: an adapter each.

An adapter is a module of a class and its one object, named in `ADAPTERS` and in `Site.platform`.
What fetches its pages, tries them again, stores and delists is the engine's, as for every listing.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from scraper.plugins.platforms.adapter import Adapter
from scraper.plugins.platforms.magento import MAGENTO
from scraper.plugins.platforms.shopify import SHOPIFY
from scraper.plugins.platforms.woocommerce import WOOCOMMERCE

ADAPTERS: dict[str, Adapter] = {
    "shopify": SHOPIFY,
    "woocommerce": WOOCOMMERCE,
    "magento": MAGENTO,
}


def adapter_of(platform: str | None, url: str) -> Adapter | None:
    """The adapter that reads the URL, where it is a page of that platform's interface."""
    adapter = ADAPTERS[platform] if platform is not None else None
    return adapter if adapter is not None and urlsplit(url).path in adapter.paths else None
