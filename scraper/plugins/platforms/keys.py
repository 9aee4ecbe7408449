"""`platform:` in a definition: the shop platform whose own interface is read. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scraper.sites.plugin_keys import DefinitionKeys


class PlatformsKeys(DefinitionKeys):
    platform: Literal["shopify", "woocommerce", "magento"] | None = Field(
        None, description="read products through this platform's own interface, if it is open"
    )
