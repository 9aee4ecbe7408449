"""`platform:` in a definition: the shop platform whose own interface is read. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scraper.sites.plugin_keys import DefinitionKeys


class PlatformsKeys(DefinitionKeys):
    platform: Literal["shopify", "woocommerce", "magento"] | None = Field(
        None, description="products by that platform's own interface, where it is open"
    )
