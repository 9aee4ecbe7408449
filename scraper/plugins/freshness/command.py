"""`scraper plan`: what a site's requests buy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import click
import sqlalchemy as sa

from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import json_option, print_json
from scraper.cli.common.tables import print_table
from scraper.errors import NotFoundError
from scraper.frontier import sites
from scraper.plugins.freshness import store, traffic
from scraper.plugins.freshness.keys import FreshnessKeys
from scraper.plugins.freshness.learning import needed_requests
from scraper.plugins.freshness.rules.allocation import needed_budget, reached_age, visits_of
from scraper.plugins.freshness.rules.limits import budget_of, find_tightest
from scraper.plugins.freshness.rules.sensors import SensorRecord
from scraper.plugins.freshness.rules.shares import PageGroup, mean_share
from scraper.plugins.freshness.rules.stored_plan import StoredPlan
from scraper.sites.definition import Site

SHARE = 0.95
AGES_H = (1, 3, 6, 12, 24, 48, 168)


@click.command()
@click.argument("site")
@json_option("object")
def plan(site: str, as_json: bool) -> None:
    """Show how fresh SITE is kept, and what other ages need."""
    with open_engine().connect() as connection:
        facts = describe_plan(connection, site)
    if as_json:
        print_json(facts)
        return
    share = f"{facts['share']:.0%}"
    click.echo(
        f"{site}: {facts['pages']:,} pages, {facts['changes_a_day']:,.1f} changes a day, "
        f"{facts['requests_a_day']:,.0f} requests a day, {facts['visits_a_day']:,.0f} of them for "
        f"products"
    )
    click.echo(f"{share} of products are true, or were {facts['age_h']:.1f} hours ago")
    kept = f"kept {facts['kept']:.1%}" if facts["kept"] is not None else _format_guess(facts)
    click.echo(f"true at any time: planned {facts['planned']:.1%}, {kept}")
    if facts["promise"] is not None:
        click.echo(_format_promise(facts["promise"], facts["budget_a_day"]))
    if len(facts["limits"]) > 1:
        allowed = ", ".join(
            f"{name} {_format_visits(visits)}" for name, visits in facts["limits"].items()
        )
        click.echo(f"visits a day that the limits allow: {allowed}; {facts['binds']} binds")
    for title, sensor in (("cards on listings", "cards"), ("dates in sitemaps", "dates")):
        if (precision := facts[sensor]["precision"]) is not None:
            believed = "" if facts[sensor]["believed"] else "; they are not believed"
            click.echo(
                f"{title}: {precision:.0%} of signals right, {facts[sensor]['recall']:.0%} of "
                f"changes signalled{believed}"
            )
    if facts["broken"] is not None:
        click.echo(f"not kept: {facts['broken']}")
    rows = [[f"{row['hours']} h", f"{row['requests_a_day']:,.0f}"] for row in facts["curve"]]
    print_table([f"{share} within", "requests a day"], rows)


def _format_guess(facts: Mapping[str, Any]) -> str:
    days = facts["pages"] / facts["changes_a_day"]
    return f"if a page changes every {days:.2g} days: none was visited twice yet"


def _format_visits(visits: float | None) -> str:
    return "any number" if visits is None else f"{visits:,.0f}"


def _format_promise(promise: dict[str, Any], budget: float | None) -> str:
    needs = f"needs {promise['needs_a_day']:,.0f} requests a day"
    kept = "" if promise["kept"] is None else f"; kept so far: {promise['kept']:.1%}"
    if promise["planned"]:
        return f"the promise {promise['text']} {needs} and is kept by the plan{kept}"
    return f"the promise {promise['text']} {needs}; a budget of {budget:,.0f} cannot keep it{kept}"


def describe_plan(connection: sa.Connection, name: str) -> dict[str, Any]:
    """Returns a site's plan for people and programs. Raises `NotFoundError` if there is none."""
    row = sites.find_site(connection, name)
    if row is None:
        raise NotFoundError(f"no site named {name!r}; `scraper sites list` shows the sites")
    site_id, site = row
    keys, stored = site.of(FreshnessKeys), store.read_plan(connection, site_id)
    groups = store.read_groups(connection, site_id, stored.profile.season if stored else 1.0)
    if not keys.is_planned or stored is None or not groups:
        raise NotFoundError(_explain_missing_plan(site))
    share = keys.promised_share or SHARE
    visits = visits_of(groups, stored.plan.allocation)
    others = store.other_requests(connection, site_id)
    limits = traffic.read_limits(connection, site_id, keys, others)
    budget = budget_of(limits, others)
    return {
        "site": name,
        "budget_a_day": budget,
        "limits": {
            name: None if math.isinf(limit.visits) else limit.visits
            for name, limit in limits.items()
        },
        "binds": find_tightest(limits),
        "promise": keys.fresh and _describe_promise(keys, stored, groups, (others, budget)),
        "pages": sum(int(group.number) for group in groups),
        "changes_a_day": sum(group.rate * (1 - group.same) * group.number for group in groups),
        "requests_a_day": stored.requests,
        "visits_a_day": stored.visits,
        "share": share,
        "age_h": reached_age(groups, stored.plan.allocation, share) * 24,
        "planned": stored.promise(mean_share(groups, visits)),
        "kept": stored.kept,
        "broken": stored.broken,
        "cards": _describe_sensor(stored.cards),
        "dates": _describe_sensor(stored.dates),
        "curve": _needed_by_age(groups, keys, share, others),
    }


def _explain_missing_plan(site: Site) -> str:
    if FreshnessKeys.is_read_whole(site):
        return (
            f"{site.name} has no plan: each crawl reads all products from its platform (fix: "
            f"crawl more often, by `schedule`)"
        )
    return f"{site.name} has no plan yet (fix: `budget: 20000/d` in its definition, and one crawl)"


def _describe_sensor(record: SensorRecord) -> dict[str, Any]:
    return {
        "precision": record.precision,
        "recall": record.recall,
        "believed": record.has_say,
    }


def _describe_promise(
    keys: FreshnessKeys,
    stored: StoredPlan,
    groups: Sequence[PageGroup],
    requests: tuple[float, float | None],
) -> dict[str, Any]:
    assert keys.fresh is not None
    others, budget = requests
    needs = needed_requests(groups, keys, stored, others)
    return {
        "text": f"{keys.fresh.share} within {keys.fresh.within}",
        "looked": keys.fresh.looked,
        "needs_a_day": needs,
        "planned": budget is None or needs <= budget,
        "kept": stored.kept_promise,
    }


def _needed_by_age(
    groups: Sequence[PageGroup], keys: FreshnessKeys, share: float, others: float
) -> list[dict[str, Any]]:
    return [
        {
            "hours": hours,
            "requests_a_day": others + needed_budget(groups, share, hours / 24, keys.least_visits),
        }
        for hours in AGES_H
    ]
