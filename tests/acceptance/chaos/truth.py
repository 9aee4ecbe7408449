"""What must be true after a round and at the end. Every check is made and reports all that it
finds; none repairs anything.

A check returns sentences, none where all is well.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from scraper.plugins.demo.catalogue import Catalogue
from scraper.views import crawl_progress as progress
from tests.acceptance.chaos.audit import Held, Story
from tests.acceptance.chaos.servers import US, Servers
from tests.acceptance.commands import counted
from tests.acceptance.conftest import SampleShop
from tests.acceptance.truth import as_truth

SHOWN = 5
# between the shop noting a request and PostgreSQL noting its lease
CLOCK_S = 0.15
WAKES_S = 2.0
# the sample shop's concurrency: what a worker may have been about to send when it was frozen
IN_FLIGHT = 16
EXPORT = sa.text("""
SELECT p.external_id AS id, p.url, CAST(p.data AS text) AS data, p.version, p.delisted_at IS NOT NULL AS delisted
  FROM products p JOIN sites s ON s.id = p.site_id WHERE s.name = 'demo'
""")
VERSIONS = sa.text("""
SELECT p.external_id AS id, p.version, array_agg(v.version ORDER BY v.version) AS versions,
       array_agg(CAST(v.content_hash AS text) ORDER BY v.version) AS hashes, CAST(p.content_hash AS text) AS hash
  FROM products p JOIN sites s ON s.id = p.site_id LEFT JOIN product_versions v ON v.product_id = p.id
 WHERE s.name = 'demo' GROUP BY p.id
""")
OPEN = sa.text("""
SELECT status, queue, last_outcome, count(*) AS pages, min(not_before) - now() AS next_due_in, max(losses) AS losses
  FROM pages WHERE crawl_id = :id AND status = 'due' GROUP BY 1, 2, 3 ORDER BY 4 DESC
""")
LEASES = sa.text(
    "SELECT id::text, queue, kind, pages, worker, until - now() AS runs_out_in FROM leases LIMIT 20"
)
BAD = sa.text("""
SELECT url, kind, status, last_outcome, http_status, attempts, host_attempts, losses, error
  FROM pages WHERE crawl_id = :id AND status IN ('dead', 'invalid', 'dropped') LIMIT 8
""")
URLS = sa.text("SELECT id, url FROM pages WHERE crawl_id = :id")
SNAPSHOT = sa.text("""
SELECT (SELECT md5(string_agg(c::text, '|' ORDER BY id)) FROM crawls c WHERE id = :id) AS crawl,
       (SELECT md5(string_agg(p::text, '|' ORDER BY p.id)) FROM pages p WHERE crawl_id = :id) AS pages,
       (SELECT md5(string_agg(p::text, '|' ORDER BY p.id)) FROM products p JOIN sites s ON s.id = p.site_id
         WHERE s.name = 'demo') AS products,
       (SELECT count(*) FROM product_versions) AS versions
""")


@dataclass
class Checks:
    """The checks by name, with what each found wrong."""

    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, problems: Sequence[str]) -> None:
        self.found.setdefault(name, []).extend(problems)

    @property
    def failed(self) -> dict[str, list[str]]:
        return {name: problems for name, problems in self.found.items() if problems}


@dataclass
class Counted:
    """One round in numbers."""

    crawl_id: int
    seconds: float
    pages: int = 0
    fetches: int = 0
    minimum: int = 0
    leases: int = 0
    deferred: int = 0
    lost: int = 0
    versions: int = 0
    woken: int = 0

    @property
    def over(self) -> int:
        return self.fetches - self.minimum


def few(problems: Sequence[str]) -> list[str]:
    more = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"… and {more} more"] if more > 0 else [])]


def products_are_the_truth(
    engine: sa.Engine, shop: SampleShop, catalogue: Catalogue, visit: int
) -> list[str]:
    """Each product, each field, each digit. What has just vanished is kept until a second crawl
    misses it."""
    with engine.connect() as connection:
        rows = list(connection.execute(EXPORT))
    expected = shop.truth()
    if visit > 1:
        kept = catalogue.at(visit - 1).items.keys() - catalogue.at(visit).items.keys()
        before = {str(r["id"]): r for r in catalogue.truth(visit - 1, shop.url)}
        expected |= {str(number): before[str(number)] for number in kept}
    stored: dict[str, Any] = {}
    for row in rows:
        if not row.delisted:
            data = json.loads(row.data, parse_float=Decimal)
            stored[row.id] = as_truth({"id": row.id, "url": row.url, **data})
    problems = [f"{number} twice" for number, n in Counter(row.id for row in rows).items() if n > 1]
    problems += [f"{number} is missing" for number in sorted(expected.keys() - stored.keys())]
    problems += [
        f"{number} is not sold (any more)" for number in sorted(stored.keys() - expected.keys())
    ]
    for number in sorted(expected.keys() & stored.keys()):
        wrong = {
            k: (stored[number].get(k), v)
            for k, v in expected[number].items()
            if stored[number].get(k) != v
        }
        if wrong:
            problems.append(f"{number}: (stored, true) {wrong}")
    return few(problems)


def versions_are_the_changes(engine: sa.Engine, catalogue: Catalogue, visit: int) -> list[str]:
    """As many versions as the shop made changes, in one row each, none equal to its neighbour."""
    with engine.connect() as connection:
        rows = list(connection.execute(VERSIONS))
    every = [catalogue.at(number).items for number in range(1, visit + 1)]
    problems = []
    for row in rows:
        shown = [items[int(row.id)] for items in every if int(row.id) in items]
        changes = sum(a.record("") != b.record("") for a, b in pairwise(shown))
        earlier = [] if row.versions == [None] else row.versions
        hashes = [*([] if row.hashes == [None] else row.hashes), row.hash]
        if row.version != 1 + changes or earlier != list(range(1, row.version)):
            problems.append(
                f"{row.id}: version {row.version}, earlier ones {earlier}, {changes} changes in the shop"
            )
        elif any(a == b for a, b in pairwise(hashes)):
            problems.append(f"{row.id}: a version equals the next one")
    return few(problems)


def crawl_is_whole(engine: sa.Engine, crawl_id: int, catalogue: Catalogue, visit: int) -> list[str]:
    """Completed, every page with one good verdict, its counters those of the pages table and of the
    catalogue."""
    crawl = progress.as_json(progress.read_one(engine, crawl_id))
    table = counted(engine, crawl_id)
    problems = [
        f"{k}: the crawl says {crawl[k]}, the pages table {n}"
        for k, n in table.items()
        if crawl[k] != n
    ]
    if crawl["status"] != "completed":
        problems.append(f"it is {crawl['status']}: {crawl['note']}")
    for name in ("dead", "invalid", "dropped", "links_cut"):
        if crawl[name]:
            problems.append(f"{crawl[name]} {name}")
    if crawl["done"] != crawl["total"]:
        problems.append(f"{crawl['done']} of {crawl['total']} pages have a final status")
    now, before = catalogue.at(visit).items, catalogue.at(visit - 1).items if visit > 1 else {}
    changed = sum(before[i].record("") != now[i].record("") for i in now.keys() & before.keys())
    for name, n in (
        ("products_new", len(now.keys() - before.keys())),
        ("products_changed", changed),
    ):
        if crawl[name] != n:
            problems.append(f"{name}: {crawl[name]}, in the shop {n}")
    with engine.connect() as connection:
        problems += [str(dict(row._mapping)) for row in connection.execute(BAD, {"id": crawl_id})]
    return problems


def leases_are_claimed_once(story: Story) -> list[str]:
    """A worker that lost the reply to its claim asks again, under the claim's id."""
    counts = Counter(lease for lease, _ in {(lease, worker) for _, lease, worker in story.claims})
    return few([f"lease {lease} was claimed {n} times" for lease, n in counts.items() if n > 1])


def pages_of(engine: sa.Engine, crawl_id: int, base_url: str) -> dict[str, int]:
    """Request target -> page id."""
    with engine.connect() as connection:
        return {
            row.url.removeprefix(base_url): row.id
            for row in connection.execute(URLS, {"id": crawl_id})
        }


def requests_are_explained(
    engine: sa.Engine,
    shop: SampleShop,
    story: Story,
    catalogue: Catalogue,
    visit: int,
    woken: Sequence[float],
    numbers: Counted,
) -> list[str]:
    """Each request that the shop answered belongs to a lease that held its page at that moment, and
    no lease asked twice.

    A request that was broken off may have been repeated at once (on a connection that had been used
    before). A worker that wakes may send what it was about to send when it was frozen: those are
    counted, not forgiven without limit.
    """
    pages = pages_of(engine, story.crawl_id, shop.url)
    log = [(at, target, status) for at, target, status in shop.log() if target != "/robots.txt"]
    moves = {
        item.linked_path: item.path for item in catalogue.at(visit).items.values() if item.old_slug
    }
    holders: dict[str, list[Held]] = defaultdict(list)
    for target, page_id in pages.items():
        holders[target] += story.held.get(page_id, [])
        # what it leads to is asked for in its name
        if target in moves:
            holders[moves[target]] += story.held.get(page_id, [])
    used: Counter[tuple[str, str, int]] = Counter()
    problems = []
    for at, target, status in log:
        good = [h for h in holders[target] if h.began - CLOCK_S <= at <= (h.ended or at) + CLOCK_S]
        limit = 2 if status == 0 else 1
        free = [h for h in good if used[h.lease_id, target, status == 0] < limit]
        if free:
            used[free[0].lease_id, target, status == 0] += 1
        elif any(0 <= at - wake <= WAKES_S for wake in woken):
            numbers.woken += 1
        else:
            spells = [
                (round(h.began - at, 2), round(h.ended - at, 2) if h.ended else None)
                for h in holders[target]
            ]
            problems.append(
                f"{target} ({status}) at {at:.2f}: held (from, until, relative) {spells}"
            )
    if numbers.woken > IN_FLIGHT * len(woken):
        problems.append(
            f"{numbers.woken} requests within {WAKES_S:g} s of {len(woken)} wakings, without a lease"
        )
    broken = sum(status in (0, 500, 503) for _, _, status in log)
    numbers.pages, numbers.fetches = len(pages), len(log)
    numbers.minimum = len(pages) + len(pages.keys() & moves.keys()) + broken
    never = sorted(pages.keys() - {target for _, target, _ in log})
    return few(problems) + few([f"{target} was never asked for" for target in never])


def no_lease_is_left(engine: sa.Engine, crawl_id: int | None = None) -> list[str]:
    """No lease (of that crawl's pages; None: at all)."""
    query = "SELECT count(*) FROM leases" if crawl_id is None else (
        "SELECT count(DISTINCT lease_id) FROM leased_pages JOIN pages ON id = page_id WHERE crawl_id = :id")  # fmt: skip
    with engine.connect() as connection:
        left = connection.execute(sa.text(query), {"id": crawl_id} if crawl_id else {}).scalar()
    return [f"{left} leases"] if left else []


def connections_left(servers: Servers) -> list[str]:
    """After the fleet has ended: anybody but us in PostgreSQL or in Valkey."""
    query = """SELECT application_name, state FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND application_name <> %s"""
    with servers.connect() as connection:
        found = [
            f"PostgreSQL: {name!r} {state}"
            for name, state in connection.execute(query, (US,)).fetchall()
        ]
    with servers.valkey() as client:
        for other in client.client_list():
            if other.get("name") != US and other.get("cmd") != "client|list":
                found.append(
                    f"Valkey: {other.get('name') or other.get('addr')}, {other.get('cmd')}, age {other.get('age')} s"
                )
    return few(found)


def snapshot(engine: sa.Engine, crawl_id: int) -> dict[str, object]:
    """The crawl, its pages and all products as they are, to the last column."""
    with engine.connect() as connection:
        return dict(connection.execute(SNAPSHOT, {"id": crawl_id}).one()._mapping)


def diagnosis(engine: sa.Engine, crawl_id: int) -> list[str]:
    """Why a crawl does not end, for people."""
    with engine.connect() as connection:
        rows = [f"open: {dict(row._mapping)}" for row in connection.execute(OPEN, {"id": crawl_id})]
        rows += [f"lease: {dict(row._mapping)}" for row in connection.execute(LEASES)]
    return rows
