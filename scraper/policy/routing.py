"""Which queue a page goes to, and how far ahead in it. Pure: a site's wishes in, names and numbers out."""

from __future__ import annotations

from scraper.domain import Kind

COORDINATOR = "coordinator"
CAPABILITIES = ("datacenter", "residential")
ANY_REGION = "any"
PRIORITY_LEVELS = 10
URGENT = PRIORITY_LEVELS * 2 - 1  # the first of all page priorities


def queue_name(capability: str, region: str = ANY_REGION) -> str:
    """`residential` in `eu` is `residential.eu`; without a region it is plain `residential`."""
    return capability if region in ("", ANY_REGION) else f"{capability}.{region}"


def page_priority(priority: int, kind: Kind) -> int:
    """The frontier's sort key: the site's priority (0 low … 9 high), and within it discovery before products.

    Discovery first, because what is not discovered cannot be spread over the workers.
    """
    return priority * 2 + (1 if kind.discovers else 0)


def message_priority(highest: int, *, zero_is_first: bool) -> int:
    """The broker's number for a batch whose most urgent page has the frontier priority `highest`.

    Redis serves 0 first, RabbitMQ 9 (Celery passes the number through unchanged).
    """
    level = max(0, min(PRIORITY_LEVELS - 1, highest // 2))
    return PRIORITY_LEVELS - 1 - level if zero_is_first else level
