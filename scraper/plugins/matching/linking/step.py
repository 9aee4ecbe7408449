"""Keeps articles up to date with the feed: one step of the background work.

One process at a time links. Each transaction reads a batch of the feed (or of products, the first
time), writes their offers, groups what shares a code with them, and advances. A coordinator that
dies leaves all of these steps or none. A crawl never waits for linking.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal

import sqlalchemy as sa
import structlog

from scraper.domain import Message
from scraper.errors import CursorError
from scraper.feed import reader
from scraper.feed import store as feed
from scraper.feed.reader import ChangeReader
from scraper.plugins.matching.identity.offer import read_offer
from scraper.plugins.matching.linking import proposals, store
from scraper.plugins.matching.linking.clusters import cluster_offers
from scraper.plugins.matching.linking.evidence import Learned, learn_brands, learn_price_factor
from scraper.plugins.matching.linking.market import best_offers
from scraper.plugins.matching.linking.store import IncomingOffer, StoredOffer
from scraper.settings import Settings

log = structlog.get_logger()

BATCH = 1000
# A tick starts no further transaction after this time.
AT_ONCE_S = 8.0
TRANSACTION_S = 1.0
# The pause before another try while another process links.
RETRY_S = 0.1

# What is left to link after a batch; `locked`: another process links.
Left = Literal["more", "nothing", "locked"]


def link_offers(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Links for some seconds, as one tick, once there are two shops. Returns an empty list: no task
    follows."""
    with engine.connect() as connection:
        has_one_shop = store.has_one_shop(connection)
    if not has_one_shop:
        run(engine, AT_ONCE_S)
    return []


def run(engine: sa.Engine, for_s: float, *, waits: bool = False) -> bool:
    """Links what is new for at most about `for_s` seconds, then looks for proposals. Returns
    whether nothing is left to do. While another process links, returns False at once, or waits for
    it."""
    latest = time.monotonic() + for_s
    while True:
        is_done = _run_once(engine, latest)
        if is_done or not waits or time.monotonic() >= latest:
            return is_done
        time.sleep(RETRY_S)


def _run_once(engine: sa.Engine, latest: float) -> bool:
    """Works until the monotonic time `latest`, or as far as other processes let it. Returns whether
    nothing is left to do."""
    left: Left = "more"
    while left == "more" and time.monotonic() < latest:
        left = _advance_batch(engine)
    is_linked = left == "nothing" and _learn_from_links(engine)
    return proposals.propose_links(engine, latest) and is_linked


def _advance_batch(engine: sa.Engine) -> Left:
    """Reads and links one batch."""
    try:
        with engine.begin() as connection:
            if not store.lock(connection):
                return "locked"
            state = store.read_state(connection)
            if state is not None:
                if state.position is None:
                    return _load_products(connection, state)
                return _read_feed(connection, state.position, state)
    except CursorError as error:
        # The feed no longer has what was not read, or the database was restored.
        log.warning("matching loads all products again", reason=str(error))
    start = feed.current_cursor(engine)
    with engine.begin() as connection:
        store.begin(connection, start)
    return "more"


def _load_products(connection: sa.Connection, state: store.State) -> Left:
    rows = store.read_products(connection, state.loaded, BATCH)
    offers = [
        make_offer(row.site, row.external_id, row.url, row.data_json, listed=row.listed)
        for row in rows
    ]
    apply_offers(connection, offers, state.learned, events=False)
    whole = len(rows) < BATCH
    last = rows[-1].number if rows else state.loaded
    store.move(connection, state.start if whole else None, last)
    return "more"


def _read_feed(connection: sa.Connection, position: int, state: store.State) -> Left:
    changes = ChangeReader(connection, position, rows=BATCH)
    latest = time.monotonic() + TRANSACTION_S
    for batch in reader.ready_batches(changes, TRANSACTION_S):
        reverted = [(change.site, change.id) for change in batch if change.event == "reverted"]
        stored = store.read_by_key(connection, reverted) if reverted else {}
        offers: dict[tuple[str, str], IncomingOffer] = {}
        for change in batch:
            key = change.site, change.id
            before = offers.get(key) or stored.get(key)
            listed = change.event != "delisted"
            # A product that is delisted stays so when its values are reverted.
            if change.event == "reverted" and before is not None:
                listed = before.listed
            offers[key] = make_offer(
                *key,
                change.url,
                change.data_json,
                listed=listed,
                crawl=change.crawl,
            )
        apply_offers(connection, list(offers.values()), state.learned)
    if changes.cursor != position:
        store.move(connection, changes.cursor, state.loaded)
    if changes.has_passed_replacement(position):
        log.warning(
            "PostgreSQL was replaced; alerts over all shops about changes that it lost come again",
            after=position,
        )
    return "more" if time.monotonic() >= latest else "nothing"


def make_offer(
    site: str,
    external_id: str,
    url: str | None,
    data_json: str,
    *,
    listed: bool = True,
    crawl: int | None = None,
) -> IncomingOffer:
    """Returns the offer that a product's fields describe."""
    identity, terms = read_offer(json.loads(data_json, parse_float=Decimal))
    return IncomingOffer(site, external_id, url, identity, terms, listed, crawl)


def apply_offers(
    connection: sa.Connection,
    offers: Sequence[IncomingOffer],
    learned: Learned,
    *,
    events: bool = True,
) -> None:
    """Writes offers and links again what their codes concern. The caller holds the lock."""
    if not offers:
        return
    old = store.read_by_key(connection, [offer.key for offer in offers])
    ids = store.upsert_offers(connection, offers)
    moved = [offer for offer in offers if _has_moved(offer, old.get(offer.key))]
    store.add_words(connection, _find_new_words(offers, ids, old))
    touched = {ids[offer.key] for offer in moved}
    before = {stored.id: stored for stored in old.values()}
    after = relink_offers(connection, touched, learned, [old.get(offer.key) for offer in moved])
    if events:
        _record_events(connection, offers, ids, before, after)


def _find_new_words(
    offers: Iterable[IncomingOffer],
    ids: Mapping[tuple[str, str], int],
    old: Mapping[tuple[str, str], StoredOffer],
) -> Iterator[tuple[str, str, int]]:
    for offer in offers:
        stored = old.get(offer.key)
        listed = () if stored is None else stored.offer.identity.words
        for word in offer.identity.words:
            if word not in listed:
                yield word, offer.site, ids[offer.key]


def relink_offers(
    connection: sa.Connection,
    ids: Collection[int],
    learned: Learned,
    earlier: Iterable[StoredOffer | None] = (),
) -> dict[int, tuple[int, int]]:
    """Groups again the offers that share a code or an article with some. Returns the offers that
    moved, each with its article before and after."""
    if not ids:
        return {}
    were = [stored.offer.identity for stored in earlier if stored is not None]
    gtins = {identity.gtin_key for identity in were if identity.gtin_key}
    mpns = {identity.mpn for identity in were if identity.mpn}
    scope = store.read_scope(connection, ids, gtins, mpns)
    by_id = {stored.id: stored for stored in scope}
    confirmed, refused = store.read_decisions(connection, by_id.keys())
    clusters = cluster_offers([offer.offer for offer in scope], learned, confirmed, refused)
    moved = {
        id_: (by_id[id_].article, article)
        for id_, article in clusters.articles.items()
        if by_id[id_].article != article
    }
    store.write_articles(connection, {id_: after for id_, (_, after) in moved.items()})
    store.write_links(connection, by_id.keys(), clusters.links)
    return moved


def _has_moved(incoming: IncomingOffer, stored: StoredOffer | None) -> bool:
    """Returns whether what identifies the product is new."""
    return stored is None or incoming.identity != stored.offer.identity


def _record_events(
    connection: sa.Connection,
    offers: Sequence[IncomingOffer],
    ids: Mapping[tuple[str, str], int],
    before: Mapping[int, StoredOffer],
    moved: Mapping[int, tuple[int, int]],
) -> None:
    """Records how each article's offers changed: who asks for what before and after."""
    crawls = {ids[offer.key]: offer.crawl for offer in offers}
    current = store.read_articles_of(connection, {*crawls, *moved})
    rows = []
    for article, members in current.items():
        # The article that each offer comes from; an offer that is new did not exist.
        origins = {
            stored.id: moved.get(stored.id, (article,))[0]
            for stored in members
            if stored.id in before or stored.id not in crawls
        }
        # An article's number is its first offer's, and changes when that leaves. If offers of two
        # articles meet, the article whose first offer is here goes on, and the others joined it.
        origin = min(origins.values(), key=lambda first: (first not in origins, first), default=0)
        earlier = [before.get(s.id, s) for s in members if origins.get(s.id) == origin]
        best_before, best_after = best_offers(earlier), best_offers(members)
        sites = {row["site"] for row in [*best_before, *best_after]}
        if best_before != best_after and len(sites) > 1:
            crawl = max((c for s in members if (c := crawls.get(s.id)) is not None), default=None)
            rows.append(
                {
                    "article_id": article,
                    "crawl_id": crawl,
                    "before": best_before,
                    "after": best_after,
                }
            )
    store.insert_events(connection, rows)


def _learn_from_links(engine: sa.Engine) -> bool:
    """Learns from offers with equal GTINs, once an hour, and links again the offers of brands that
    turned out to be one. Returns False if another process links."""
    with engine.begin() as connection:
        state = store.read_state(connection)
        if state is None or not state.to_learn:
            return True
        if not store.lock(connection):
            return False
        pairs: Counter[tuple[str, str]] = Counter()
        own: Counter[str] = Counter()
        ratios = []
        for row in store.read_gtin_pairs(connection):
            if row.ratio is not None:
                ratios.append(row.ratio)
            if row.brand and row.brand == row.other_brand:
                own[row.brand] += 1
            elif row.brand and row.other_brand:
                pairs[min(row.brand, row.other_brand), max(row.brand, row.other_brand)] += 1
        learned = Learned(learn_brands(pairs, own), learn_price_factor(ratios))
        store.store_learned(connection, learned)
        new = learned.brands.keys() - state.learned.brands.keys()
        ids = store.read_ids_of_brands(connection, new) if new else []
        for first in range(0, len(ids), BATCH):
            relink_offers(connection, ids[first : first + BATCH], learned)
        store.forget_events(connection)
    log.info("matching learned", brands=len(learned.brands), price_factor=learned.price_factor)
    return True
