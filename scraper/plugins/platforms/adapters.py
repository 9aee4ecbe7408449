"""The adapters of shop platforms that publish their products through an interface.

An adapter is a module with a class and one instance, listed in `ADAPTERS` and in the key
`platform:`. The core fetches, retries, stores and delists as for every listing.
"""

from __future__ import annotations

from scraper.extract.adapter import Adapter
from scraper.plugins.platforms.magento import MAGENTO
from scraper.plugins.platforms.shopify import SHOPIFY
from scraper.plugins.platforms.woocommerce import WOOCOMMERCE

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter for adapter in (SHOPIFY, WOOCOMMERCE, MAGENTO)
}
