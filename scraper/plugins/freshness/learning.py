"""Learns from the looks at a site's pages how often they change, and plans the next visits.

A round calls it before it chooses pages. It opens no crawl itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
import structlog

from scraper.feed.watched import WatchRule
from scraper.plugins.freshness import signals, store, traffic
from scraper.plugins.freshness.keys import DAY_S, FreshnessKeys
from scraper.plugins.freshness.rules.allocation import needed_budget, visits_of
from scraper.plugins.freshness.rules.contract import KEPT_DAYS, TOLERANCE, Contract
from scraper.plugins.freshness.rules.estimates import (
    SAME_CELLS,
    Evidence,
    estimate_rate,
    fresh_days,
)
from scraper.plugins.freshness.rules.limits import Limit, budget_of
from scraper.plugins.freshness.rules.plan import SitePlan, first_rate
from scraper.plugins.freshness.rules.profile import Profile
from scraper.plugins.freshness.rules.shares import PageGroup, mean_share, stays_away
from scraper.plugins.freshness.rules.stored_plan import StoredPlan
from scraper.sites.definition import Site

log = structlog.get_logger()
# Returns the weight of a page, by the data of its first product and the ids of all.
Weigh = Callable[[Mapping[str, Any], Collection[str]], float]

PLANNED_EVERY = timedelta(hours=1)
PLANNED_AGAIN = timedelta(minutes=5)
# What is needed counts with this reserve.
RESERVE = 1.03
# A visit says that a sensor missed a change only if that was read in the last part of the time
# since the visit before.
UNREAD_PART = 0.2


def update_plan(
    connection: sa.Connection,
    site_id: int,
    site: Site,
    now: datetime,
    watched: Sequence[WatchRule] = (),
) -> StoredPlan:
    """Learns from the looks since the last time, and plans again once an hour, after five minutes
    if less or more is kept than planned, or if the definition or watched products have changed."""
    keys, stored = site.of(FreshnessKeys), store.read_plan(connection, site_id)
    wanted = keys.model_dump(mode="json", include={"budget", "fresh", "weight"})
    wanted["watched"] = [asdict(rule) for rule in watched]
    if stored is None:
        first = SitePlan.of([], 0)._replace(
            mean_rate=first_rate(keys.promised_share or 1.0, keys.promised_days)
        )
        long_ago = datetime(2000, 1, 1, tzinfo=UTC)
        stored = StoredPlan(first, 0.0, 0.0, 0.0, long_ago, wanted, Profile())
    weigh = partial(keys.weigh, watched=watched)
    stored = _learn_looks(connection, site_id, site, stored, weigh)
    # The plan of a new site waits for its first pages: one made without pages would put off their
    # first visits for ten years.
    if not stored.requests and not store.read_groups(connection, site_id):
        return stored
    stored.profile.refresh()
    if any(stored.wanted.get(key) != wanted[key] for key in ("weight", "watched")):
        _weigh_again(connection, site_id, stored, weigh)
    is_off = stored.kept is not None and abs(stored.kept - stored.promised) > TOLERANCE
    age = now - stored.planned_at
    if stored.wanted != wanted or age >= (PLANNED_AGAIN if is_off else PLANNED_EVERY):
        traffic.forget(connection, site_id)
        stored = _plan_again(connection, site_id, keys, stored._replace(wanted=wanted), age)
        broken = _judge_contract(connection, site_id, keys, stored)
        if broken is not None and broken != stored.broken:
            log.warning("what was promised is not kept", site_id=site_id, reason=broken)
        stored = stored._replace(planned_at=now, broken=broken)
    store.store_plan(connection, site_id, stored)
    return stored


def _weigh_again(connection: sa.Connection, site_id: int, stored: StoredPlan, weigh: Weigh) -> None:
    """Stores the weights of all pages, and visits those that have become heavier earlier."""
    profile, after = stored.profile, 0
    while rows := store.read_products(connection, site_id, after):
        moved = []
        for row in rows:
            weight = weigh(row.data or {}, row.ids or ())
            if weight != row.weight:
                looked = profile.stretched(row.looked_at.timestamp() / DAY_S)
                interval = _plan_interval(stored, row.rate, weight * (1 - row.same))
                at = datetime.fromtimestamp(profile.unstretched(looked + interval) * DAY_S, UTC)
                moved.append({"page_id": row.page_id, "weight": weight, "next_visit": at})
        store.store_weights(connection, moved)
        after = rows[-1].page_id


def _learn_looks(
    connection: sa.Connection, site_id: int, site: Site, stored: StoredPlan, weigh: Weigh
) -> StoredPlan:
    keys = site.of(FreshnessKeys)
    last = store.last_whole_crawl(connection, site_id)
    readers = [store.read_round] if last == stored.loaded else [store.read_round, store.read_others]
    for read in readers:
        while rows := read(connection, site_id):
            looks = []
            for row in rows:
                look, stored = learn_look(row, keys, stored, weigh)
                looks.append(look)
            store.store_looks(connection, site_id, looks)
    store.end_round(connection, site_id)
    # Only crawls of the whole site read listings and sitemaps.
    if last != stored.loaded:
        signals.signal_pages(connection, site_id, site, stored)
        signals.forget(connection, site_id)
    return stored._replace(loaded=last)


def learn_look(
    row: Any, keys: FreshnessKeys, stored: StoredPlan, weigh: Weigh
) -> tuple[dict[str, Any], StoredPlan]:
    """Returns the row of a page after a look, and the plan that counts for how long what was stored
    was true since the look before."""
    now = row.fetched_at.timestamp() / DAY_S
    profile, plan = stored.profile, stored.plan
    stretched_now = profile.stretched(now)
    weight = weigh(row.data or {}, row.ids)
    evidence, older_hash = Evidence(), None
    rate = mean_rate = plan.mean_rate / profile.season
    if row.looked_at is not None:
        since, until = row.looked_at.timestamp() / DAY_S, _find_stored(row, now)
        days, changed = stretched_now - profile.stretched(since), row.content_hash != row.old_hash
        before = store.evidence_of(row)
        older_hash = row.old_hash if changed else row.older_hash
        returned = changed and row.content_hash == row.older_hash
        stored, quiet = _learn_sensors(row, stored, (since, now), changed=changed)
        begin = max(since, quiet)
        quiet_days = profile.stretched(begin) - profile.stretched(since)
        evidence = before.before_signal(quiet_days).after_look(
            days - quiet_days, changed=changed, returned=returned
        )
        rate = estimate_rate(evidence, mean_rate)
        page = PageGroup(rate * profile.season, weight, 1.0, evidence.same)
        known = before.outweighs(mean_rate)
        kept = _count_kept(stored, keys, (since, begin, now, until), page, changed=changed)
        stored = kept if known else _count_unforeseen(stored, kept)
        # What differs from guessed rates is not the hour's doing. And a change that brings back an
        # earlier value was not the only one.
        if known and not before.same:
            _learn_profile(profile, (since, begin, now), row.rate, changed=changed)
    same = round(evidence.same * SAME_CELLS) / SAME_CELLS
    look = {
        "page_id": row.id,
        "rate": rate,
        "same": same,
        "weight": weight,
        "content_hash": row.content_hash,
        "older_hash": older_hash,
        "looked_at": row.fetched_at,
        "next_visit": _next_visit(stored, now, rate, weight * (1 - same)),
    }
    return evidence._asdict() | look, stored


def _find_stored(row: Any, now: float) -> float:
    """Returns when what a look found was stored: a change that is doubted waits for that."""
    if row.content_hash == row.old_hash or row.changed_at is None:
        return now
    changed_at: datetime = row.changed_at
    return max(changed_at.timestamp() / DAY_S, now)


def _learn_profile(
    profile: Profile, times: tuple[float, float, float], rate: float, *, changed: bool
) -> None:
    """Counts a look for the hours, weekdays and season; until the second of the times there was no
    change."""
    since, begin, now = times
    rate *= profile.season
    quiet_days = profile.stretched(begin) - profile.stretched(since)
    days = profile.stretched(now) - profile.stretched(begin)
    profile.add_look(since, begin, rate * quiet_days, changed=False)
    profile.add_look(begin, now, rate * days, changed=changed)


def _next_visit(stored: StoredPlan, now: float, rate: float, gain: float) -> datetime:
    profile = stored.profile
    interval = _plan_interval(stored, rate, gain)
    return datetime.fromtimestamp(
        profile.unstretched(profile.stretched(now) + interval) * DAY_S, UTC
    )


def _plan_interval(stored: StoredPlan, rate: float, gain: float) -> float:
    """Returns the days to a page's next visit. Before there is a plan, every page is visited once,
    in the order in which it was read."""
    if not stored.requests:
        return 0.0
    return stored.plan.interval(rate * stored.profile.season, gain)


def _learn_sensors(
    row: Any, stored: StoredPlan, times: tuple[float, float], *, changed: bool
) -> tuple[StoredPlan, float]:
    """Counts whether a page's card, and its date in a sitemap, were right. Returns until when one
    that is believed has shown that the page had not changed; 0 without one that says so."""
    since, now = times
    days = stored.profile.stretched(now) - stored.profile.stretched(since)
    chance = -math.expm1(-row.rate * stored.profile.season * days)
    quiet = 0.0
    records = []
    for record, signalled, read_at, quiet_until in (
        (stored.cards, row.signalled, row.card_read, row.card_quiet),
        (stored.dates, row.dated, row.date_read, row.date_quiet),
    ):
        read = read_at.timestamp() / DAY_S if read_at is not None else 0.0
        # A change after the sensor was last read is not missed.
        if signalled or now - read <= UNREAD_PART * (now - since):
            if signalled and changed and record.has_say and quiet_until is not None:
                quiet = max(quiet, min(quiet_until.timestamp() / DAY_S, now))
            record = record.after_visit(signalled=signalled, changed=changed, chance=chance)
        records.append(record)
    cards, dates = records
    return stored._replace(cards=cards, dates=dates), quiet


def _count_kept(
    stored: StoredPlan,
    keys: FreshnessKeys,
    times: tuple[float, float, float, float],
    page: PageGroup,
    *,
    changed: bool,
) -> StoredPlan:
    """Counts for how long what was stored was true between two looks; until the second of the times
    a sensor has shown that it was. What the second look found was stored at the last one."""
    since, begin, now, until = times
    stored = _count_quiet(stored, page.weight * (begin - since))
    return _count_true(stored, keys, (begin, now, until), page, changed=changed)


def _count_quiet(stored: StoredPlan, days: float) -> StoredPlan:
    """Counts a time in which what was stored was true."""
    return stored._replace(
        seen_days=stored.seen_days + days,
        kept_days=stored.kept_days + days,
        promise_days=stored.promise_days + days,
        foreseen_days=stored.foreseen_days + days * stored.modelled,
    )


def _count_true(
    stored: StoredPlan,
    keys: FreshnessKeys,
    times: tuple[float, float, float],
    page: PageGroup,
    *,
    changed: bool,
) -> StoredPlan:
    """Counts for how long what was stored was true between two looks, now and as promised. The
    second look's own value was stored at the last of the times."""
    profile, (since, now, until) = stored.profile, times
    late, spare = until - now, keys.promised_days - (until - now)
    begin, within = profile.stretched(since), min(max(spare, 0.0), now - since)
    days = profile.stretched(now) - begin
    bound_days = profile.stretched(now - within) - begin
    weight, same = page.weight, page.same
    true_days = fresh_days(days, page.rate, changed=changed, same=same)
    promised = fresh_days(days, page.rate, changed=changed, same=same, most=bound_days)
    # A page that alternates may show the value again within the time of the promise.
    missed = (bound_days - promised) * stays_away(page.rate, days - bound_days, same)
    seen_days = weight * (now - since)
    return stored._replace(
        seen_days=stored.seen_days + seen_days,
        foreseen_days=stored.foreseen_days + seen_days * stored.modelled,
        kept_days=max(
            stored.kept_days + weight * (profile.unstretched(begin + true_days) - since - late), 0.0
        ),
        promise_days=max(
            stored.promise_days
            + weight
            * (profile.unstretched(begin + bound_days - missed) - since + within + min(spare, 0.0)),
            0.0,
        ),
    )


def _count_unforeseen(before: StoredPlan, kept: StoredPlan) -> StoredPlan:
    """Returns what was kept, as if just that had been foreseen: a formula with guessed rates
    foresees nothing."""
    return kept._replace(foreseen_days=before.foreseen_days + kept.kept_days - before.kept_days)


def _plan_again(
    connection: sa.Connection, site_id: int, keys: FreshnessKeys, stored: StoredPlan, age: timedelta
) -> StoredPlan:
    if not stored.modelled:
        # Nothing was foreseen before the first plan, or by an earlier version.
        stored = stored._replace(foreseen_days=stored.kept_days)
    groups = store.read_groups(connection, site_id, stored.profile.season)
    others = store.other_requests(connection, site_id)
    limits = traffic.read_limits(connection, site_id, keys, others)
    requests, needed = budget_of(limits, others), 0.0
    if keys.fresh is not None and groups:
        needed = needed_requests(groups, keys, stored, others)
        requests = needed if requests is None else min(needed, requests)
    if requests is None:
        return stored
    visits = min(limit.visits for limit in (Limit(requests, 1.0, others), *limits.values()))
    plan = stored.plan
    if groups:
        mean_least = store.read_least_mean(connection, site_id) * stored.profile.season
        plan = SitePlan.of(groups, visits, keys.least_visits, mean_least, keys.promised_days)
    fades = math.exp(-min(age / timedelta(days=1), 1.0) / KEPT_DAYS)
    modelled = mean_share(groups, visits_of(groups, plan.allocation))
    return stored._replace(
        plan=plan,
        requests=requests,
        visits=visits,
        needed=needed,
        promised=stored.promise(modelled),
        modelled=modelled,
        foreseen_days=stored.foreseen_days * fades,
        seen_days=stored.seen_days * fades,
        kept_days=stored.kept_days * fades,
        promise_days=stored.promise_days * fades,
        hosts=store.count_hosts(connection, site_id)[0],
    )


def needed_requests(
    groups: Sequence[PageGroup], keys: FreshnessKeys, stored: StoredPlan, others: float
) -> float:
    """Returns how many requests a day the promise needs, as formulas were kept so far; 0 if nothing
    is promised."""
    share = keys.promised_share
    if share is None:
        return 0.0
    share = stored.needed_share(share)
    needed = needed_budget(groups, share, keys.promised_days, keys.least_visits)
    return needed * RESERVE + others


def _judge_contract(
    connection: sa.Connection, site_id: int, keys: FreshnessKeys, stored: StoredPlan
) -> str | None:
    """Returns why the contract is broken; None if it is kept."""
    others = store.other_requests(connection, site_id)
    return Contract(
        needed=stored.needed,
        budget=budget_of(traffic.read_limits(connection, site_id, keys, others), others),
        promised=keys.promised_share,
        promise_kept=stored.kept_promise,
        planned=stored.expected,
        kept=stored.kept,
        visits=stored.visits,
        visited=store.count_visits(connection, site_id),
    ).broken
