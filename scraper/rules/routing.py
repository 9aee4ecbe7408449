"""Decides which queue a page goes to, and how far ahead in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scraper.domain import Kind
from scraper.rules.escalation import build_ladder

COORDINATOR = "coordinator"
CAPABILITIES = ("datacenter", "residential")
# It is not a default capability, since it needs Chromium: only workers that name it serve it.
BROWSER = "browser"
ANY_REGION = "any"
PRIORITY_LEVELS = 10
# Above all page priorities.
URGENT = PRIORITY_LEVELS * 2 - 1


def queue_name(capability: str, region: str = ANY_REGION) -> str:
    """Returns `residential.eu` for `residential` in `eu`, and `residential` without a region."""
    return capability if region in ("", ANY_REGION) else f"{capability}.{region}"


@dataclass(frozen=True, slots=True)
class RoutingRule:
    """What pages of certain URLs need instead of their site's preferences; None: the same."""

    matches: Callable[[str], bool]
    capability: str | None = None
    region: str | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class RoutingPreferences:
    """What a site asks for: a capability for each kind of page, a region, a priority (0 low … 9
    high), exceptions, and the levels that blocked pages may use."""

    capabilities: Mapping[Kind, str]
    region: str
    priority: int
    rules: tuple[RoutingRule, ...] = ()
    escalate: tuple[str, ...] = ()

    @property
    def queues(self) -> set[str]:
        """Each queue that a page of the site may go to, blocked ones included."""
        rules = (RoutingRule(lambda _: False), *self.rules)
        pairs = (
            (rule.capability or own, rule.region or self.region)
            for rule in rules
            for own in self.capabilities.values()
        )
        return {
            queue_name(level, region)
            for capability, region in pairs
            for level in build_ladder(capability, self.escalate)
        }


@dataclass(frozen=True, slots=True)
class Route:
    """Where a page goes: a capability in a region, and how far ahead, as the frontier's sort
    key."""

    capability: str
    region: str
    priority: int

    @property
    def queue(self) -> str:
        return queue_name(self.capability, self.region)


def choose_route(preferences: RoutingPreferences, kind: Kind, url: str) -> Route:
    """Returns where a page goes: by the first rule that matches its URL, else by its site and
    kind. No other code decides this."""
    rule = next(
        (rule for rule in preferences.rules if rule.matches(url)), RoutingRule(lambda _: True)
    )
    return Route(
        rule.capability or preferences.capabilities[kind],
        rule.region or preferences.region,
        page_priority(preferences.priority if rule.priority is None else rule.priority, kind),
    )


def is_browser_queue(queue: str) -> bool:
    """Returns whether browsers fetch the queue's pages: `browser`, in any region."""
    return queue.partition(".")[0] == BROWSER


def queues_served_with(queue: str) -> tuple[str, ...]:
    """Returns the queues that a worker started for `queue` serves: its region's, and that without
    a region.

    >>> queues_served_with("residential.eu")
    ('residential.eu', 'residential')
    """
    capability, dot, region = queue.partition(".")
    return (queue, capability) if dot and capability and region else (queue,)


def page_priority(priority: int, kind: Kind) -> int:
    """Returns the frontier's sort key: the site's priority (0 low … 9 high), and within it
    discovery before products, since only discovered pages can be spread over workers."""
    return priority * 2 + (1 if kind.discovers else 0)


def priority_level(page_priority: int) -> int:
    """Returns the site's priority (0 low … 9 high) in a frontier priority. Pages of one level
    share batches, slots and room."""
    return max(0, min(PRIORITY_LEVELS - 1, page_priority // 2))


def message_priority(highest: int, *, zero_is_first: bool) -> int:
    """Returns the broker's number for a batch whose most urgent page has the frontier priority
    `highest`.

    Redis serves 0 first, RabbitMQ 9 (Celery passes the number through unchanged).
    """
    level = priority_level(highest)
    return PRIORITY_LEVELS - 1 - level if zero_is_first else level


def message_level(priority: int | None, *, zero_is_first: bool) -> int:
    """Returns the level that `message_priority` encoded. A message without a priority holds no
    pages, and goes first."""
    if priority is None:
        return PRIORITY_LEVELS - 1
    number = max(0, min(PRIORITY_LEVELS - 1, priority))
    return PRIORITY_LEVELS - 1 - number if zero_is_first else number


def may_begin_batch(level: int, begun: Mapping[int, float], slots: int) -> bool:
    """Returns whether a worker with `slots` slots begins a batch now. `begun`: the slots that its
    running batches take up, by level. A new batch takes up a whole slot.

    Only batches that are at least as urgent count, so that urgent work never waits for less urgent
    work.

    >>> may_begin_batch(8, {2: 16}, 16), may_begin_batch(2, {8: 1, 2: 15}, 16)
    (True, False)
    """
    return sum(batches for other, batches in begun.items() if other >= level) <= slots - 1


def room_by_level(waiting: Mapping[int, int], stale: int, ahead: int) -> list[int]:
    """Returns how many more batches of each level a queue may hold, at most `ahead`, by level.

    Only batches that are at least as urgent fill a level's room: a queue full of low priority still
    has all its room for high. `stale` messages, whose leases have ended, fill every level's.

    >>> room_by_level({2: 8}, 0, 8)
    [0, 0, 0, 8, 8, 8, 8, 8, 8, 8]
    """
    return [
        max(0, ahead - stale - sum(batches for other, batches in waiting.items() if other >= level))
        for level in range(PRIORITY_LEVELS)
    ]
