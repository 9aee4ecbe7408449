"""Looks for offers with similar titles, for people to confirm.

An offer's rare words find candidates by an index; the candidates are then compared in whole. Only
the best few of each offer are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.plugins.matching.linking import store
from scraper.plugins.matching.linking.clusters import OfferLink, Pair, order_pair
from scraper.plugins.matching.linking.evidence import (
    TITLE,
    Learned,
    Offer,
    OfferComparison,
    compare,
)
from scraper.plugins.matching.linking.store import StoredOffer

# Proposals of one offer.
KEPT = 20
CONFIDENCE_MIN = 0.2
# Words that more offers have find none: too many share them.
COMMON = 3000
# An offer is looked up by its rarest words: at least WORDS_MIN, and further ones until CANDIDATES
# offers are expected. COMPARED of them are compared in whole.
WORDS_MIN, CANDIDATES, COMPARED = 4, 400, 40
AT_ONCE = 100

WAITING = sa.text(f"""
SELECT {store.COLUMNS} FROM offers o WHERE proposed_at IS NULL ORDER BY id LIMIT :most
   FOR UPDATE SKIP LOCKED
""")
WORD_COUNTS = sa.text("SELECT word, offers FROM offer_words WHERE word = ANY (:words)")
FIND = sa.text("""
SELECT asked.id AS asked_id, o.id, o.words
  FROM jsonb_to_recordset(CAST(:asked AS jsonb))
    AS asked(id bigint, site text, article_id bigint, words text[])
 CROSS JOIN LATERAL (
       SELECT id, words FROM offers o
        WHERE o.words && asked.words AND o.site <> asked.site AND o.article_id <> asked.article_id
        LIMIT :most) o
""")
READ = sa.text(f"SELECT {store.COLUMNS} FROM offers o WHERE id = ANY (:ids)")
DONE = sa.text("UPDATE offers SET proposed_at = now() WHERE id = ANY (:ids)")


def propose_links(engine: sa.Engine, latest: float) -> bool:
    """Looks for proposals of offers that have none yet, until the monotonic time `latest`. Returns
    whether none is left."""
    while time.monotonic() < latest:
        with engine.begin() as connection:
            state = store.read_state(connection)
            rows = connection.execute(WAITING, {"most": AT_ONCE}).all()
            if not rows or state is None:
                return True
            _propose_for(connection, [store.stored_offer(row) for row in rows], state.learned)
    return False


def _propose_for(
    connection: sa.Connection, offers: Sequence[StoredOffer], learned: Learned
) -> None:
    words = {word for stored in offers for word in stored.offer.identity.words}
    rows = connection.execute(WORD_COUNTS, {"words": list(words)})
    counts = {row.word: row.offers for row in rows}
    candidates = _find_candidates(connection, offers, counts)
    wanted = {id_ for ids in candidates.values() for id_ in ids}
    read = connection.execute(READ, {"ids": list(wanted)}) if wanted else ()
    by_id = {row.id: store.stored_offer(row).offer for row in read}
    links: dict[Pair, OfferLink] = {}
    for stored in offers:
        others = [by_id[id_] for id_ in candidates.get(stored.id, ())]
        for link in rank_proposals(stored.offer, others, learned):
            links[link.left, link.right] = link
    store.insert_links(connection, links.values(), "proposed")
    connection.execute(DONE, {"ids": [stored.id for stored in offers]})


def _find_candidates(
    connection: sa.Connection, offers: Sequence[StoredOffer], counts: Mapping[str, int]
) -> dict[int, list[int]]:
    """Returns the ids of the offers of other shops that share most of each title's rare words."""
    asked = [
        {
            "id": stored.id,
            "site": stored.offer.site,
            "article_id": stored.article,
            "words": choose_words(stored.offer.identity.words, counts),
        }
        for stored in offers
    ]
    scored: dict[int, list[tuple[float, int]]] = {}
    weights = {word: 1 / math.log(2 + count) for word, count in counts.items()}
    own = {stored.id: set(stored.offer.identity.words) for stored in offers}
    for row in connection.execute(FIND, {"asked": dumps(asked), "most": 4 * CANDIDATES}):
        shared = sum(weights.get(word, 1.0) for word in own[row.asked_id].intersection(row.words))
        # Long titles share words by chance.
        score = shared / math.sqrt(len(row.words) or 1)
        scored.setdefault(row.asked_id, []).append((-score, row.id))
    return {id_: [other for _, other in nsmallest(COMPARED, f)] for id_, f in scored.items()}


def rank_proposals(offer: Offer, others: Iterable[Offer], learned: Learned) -> list[OfferLink]:
    """Returns the proposals of one offer, the most confident first."""
    comparisons = [(compare(offer, other, learned), other.id) for other in others]
    good = [
        (-comparison.confidence, id_, comparison)
        for comparison, id_ in comparisons
        if comparison.confidence >= CONFIDENCE_MIN
    ]
    return [
        OfferLink(
            *order_pair(offer.id, id_),
            OfferComparison(TITLE, comparison.confidence, comparison.evidence),
        )
        for _, id_, comparison in nsmallest(KEPT, good, key=lambda row: row[:2])
    ]


def choose_words(words: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Returns the rare words of a title by which similar ones are looked up."""
    rarest = sorted(
        (word for word in words if 1 < counts.get(word, 0) <= COMMON), key=lambda word: counts[word]
    )
    chosen: list[str] = []
    expected = 0
    for word in rarest:
        expected += counts[word]
        if len(chosen) >= WORDS_MIN and expected > CANDIDATES:
            break
        chosen.append(word)
    return chosen
