"""How long it took after each fault until work went on, from what the triggers saw. Pure: reads a
`Story`, makes no request.

    worker_*                   from the signal until the last page it held is due again or settled: how long a due page
                               then waits depends on how many others are due, and on how long the shop was away
    coordinator*, beat*        until the next lease is made
    redis_*, postgres_*,       from the moment the server answers again and lost connections are given up, until
    network_*, …               what came of a page is stored
    shop_*                     from the end of the outage until a page is there again

Time counts only while both servers answer, and for the last two kinds while the shop does. No
number where something else was out of order all the time, nor where the crawl had ended, or ended
without such an event: nothing was left to do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from tests.acceptance.chaos.audit import Story
from tests.acceptance.chaos.rig import Injected
from tests.acceptance.chaos.servers import Disorder

LOSES_LEASES = ("worker_killed", "worker_stopped", "worker_frozen")
LEASES_NEXT = ("coordinator_killed", "coordinators_in_turn", "coordinator_frozen", "beat_killed")
SERVERS, ALL = ("redis", "postgres"), ("redis", "postgres", "shop")
SERVER_BOUND_S = 30.0
# a lease period and reap's ticks
LEASE_BOUND_S = 60.0


def measure(injected: Sequence[Injected], story: Story, disorder: Disorder) -> None:
    """Writes `recovery_s` and `everybody_s` into the faults of the story's crawl."""
    for fault in injected:
        if (
            fault.crawl_id != story.crawl_id
            or fault.ended is None
            or fault.kind.startswith("messages")
        ):
            continue
        if fault.kind in LOSES_LEASES:
            fault.recovery_s = _leases_back(fault, story, disorder)
        elif fault.kind in LEASES_NEXT:
            fault.recovery_s = _until(story.made, fault.began, story, disorder, SERVERS)
        elif fault.kind.startswith("shop_"):
            fault.recovery_s = _until(story.good, fault.ended, story, disorder, SERVERS)
        else:
            fault.recovery_s = _until(story.tried, fault.ended, story, disorder, ALL)
            fault.everybody_s = _everybody(fault, story, injected)


def bound_s(kind: str) -> float | None:
    """What the recovery may take; None: it depends on what else happens."""
    if kind in ("worker_killed", "worker_frozen"):
        return LEASE_BOUND_S
    if kind.startswith(("redis_", "postgres_", "network_")) or kind in (
        "connections_cut",
        "pool_exhausted",
    ):
        return SERVER_BOUND_S
    return None


def too_slow(injected: Iterable[Injected]) -> list[str]:
    found = []
    for fault in injected:
        bound = bound_s(fault.kind)
        if bound is not None and fault.recovery_s is not None and fault.recovery_s > bound:
            found.append(
                f"#{fault.number} {fault.kind}: work went on after {fault.recovery_s:.1f} s, not {bound:.0f} s"
            )
    return found


def _until(
    events: Sequence[float], moment: float, story: Story, disorder: Disorder, whats: tuple[str, ...]
) -> float | None:
    """Orderly seconds from `moment` until the next of `events`."""
    began = max(moment, story.began)
    following = bisect_right(events, began)
    if following == len(events) or events[following] >= story.ended:
        return None
    came = events[following]
    return disorder.orderly_s(began, came, *whats)


def _leases_back(fault: Injected, story: Story, disorder: Disorder) -> float | None:
    """Pages that were in leases of these workers when the fault began; the slowest of them counts."""
    theirs = {
        lease for at, lease, worker in story.claims if worker in fault.workers and at <= fault.began
    }
    slowest = None
    for spells in story.held.values():
        for spell in spells:
            if spell.lease_id not in theirs or spell.began > fault.began:
                continue
            if spell.ended is not None and spell.ended > fault.began:
                took = disorder.orderly_s(fault.began, spell.ended, *SERVERS)
                slowest = max(slowest or 0.0, took) if took is not None else slowest
    return slowest


def _everybody(fault: Injected, story: Story, injected: Sequence[Injected]) -> float | None:
    """Until each worker has claimed again that had claimed in the half minute before, does so at
    all afterwards, and was no other fault's victim in that time. With few pages left there may be
    nothing to claim: no number to judge by."""
    assert fault.ended is not None
    before = {worker for at, _, worker in story.claims if fault.began - 30 < at < fault.began}
    before -= {
        worker
        for other in injected
        for worker in other.workers
        if other.began < fault.ended + 60 and (other.ended or fault.ended) > fault.began
    }
    first: dict[str, float] = {}
    for at, _, worker in story.claims:
        if at > fault.ended and worker in before:
            first.setdefault(worker, at - fault.ended)
    return max(first.values()) if first else None
