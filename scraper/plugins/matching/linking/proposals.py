"""Looks for offers with similar titles, for people to confirm.

An offer's rare words find candidates in lists of the offers of each word and shop; the candidates
that share most are then compared in whole. A proposal's confidence is the mean of what the
comparison says and of the share of the rare words, since long titles are alike in common words.
With that share, .947 of the pairs of ten generated shops are proposed (without: .942), and of WDC's
titles of shoes .732 (.660), watches .884 (.868), cameras .866 (.862), computers .907 (.906). Only
the best few of each offer are kept, one for each article. An article of several offers looks for
others once, by the offer after which it is called.

Trigrams (the nearest 40 titles by pg_trgm and a GiST index) were measured instead and are not used.
They propose .995 and .998 of the pairs of Abt-Buy and Amazon-Google, where words propose .992 and
.996, and .971 of WDC's as words do, but .905 instead of .942 between ten shops in three languages;
finding candidates takes 9 to 60 times as long with 4,000 offers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest

import sqlalchemy as sa

from scraper.plugins.matching.linking import store
from scraper.plugins.matching.linking.clusters import OfferLink, Pair, order_pair
from scraper.plugins.matching.linking.evidence import (
    TITLE,
    Learned,
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
WORDS_MIN, CANDIDATES, COMPARED = 4, 1000, 40
AT_ONCE = 200

WAITING = sa.text(f"""
SELECT {store.COLUMNS} FROM offers o WHERE proposed_at IS NULL ORDER BY id LIMIT :most
   FOR UPDATE SKIP LOCKED
""")
WORD_COUNTS = sa.text("SELECT word, offers FROM offer_words WHERE word = ANY (:words)")
POSTINGS = sa.text("SELECT word, site, ids FROM offer_postings WHERE word = ANY (:words)")
READ = sa.text(f"SELECT {store.COLUMNS} FROM offers o WHERE id = ANY (:ids)")
# Offers that cannot be locked are those of another process.
ARE_LEFT = sa.text("SELECT EXISTS (SELECT FROM offers WHERE proposed_at IS NULL)")
DONE = sa.text("UPDATE offers SET proposed_at = now() WHERE id = ANY (:ids)")


def propose_links(engine: sa.Engine, latest: float) -> bool:
    """Looks for proposals of offers that have none yet, until the monotonic time `latest`. Returns
    whether none is left."""
    while time.monotonic() < latest:
        with engine.begin() as connection:
            state = store.read_state(connection)
            rows = connection.execute(WAITING, {"most": AT_ONCE}).all()
            if state is None:
                return True
            if not rows:
                return not connection.execute(ARE_LEFT).scalar_one()
            _propose_for(connection, [store.stored_offer(row) for row in rows], state.learned)
    return False


def _propose_for(
    connection: sa.Connection, offers: Sequence[StoredOffer], learned: Learned
) -> None:
    candidates = _find_candidates(connection, offers)
    wanted = {id_ for ids in candidates.values() for id_ in ids}
    read = connection.execute(READ, {"ids": list(wanted)}) if wanted else ()
    by_id = {row.id: store.stored_offer(row) for row in read}
    links: dict[Pair, OfferLink] = {}
    for stored in offers:
        others = [
            (by_id[id_], share) for id_, share in candidates[stored.id].items() if id_ in by_id
        ]
        for link in rank_proposals(stored, others, learned):
            links[link.left, link.right] = link
    store.insert_links(connection, links.values(), "proposed")
    connection.execute(DONE, {"ids": [stored.id for stored in offers]})


def _find_candidates(
    connection: sa.Connection, offers: Sequence[StoredOffer]
) -> dict[int, dict[int, float]]:
    """Returns the ids of the offers of other shops that share most of each title's rare words, and
    which share, from 0 to 1, rarer words counting more."""
    words = {word for stored in offers for word in stored.offer.identity.words}
    rows = connection.execute(WORD_COUNTS, {"words": list(words)})
    counts = {row.word: row.offers for row in rows}
    chosen = {stored.id: choose_words(stored.offer.identity.words, counts) for stored in offers}
    values = {"words": list({word for few in chosen.values() for word in few})}
    postings: dict[str, list[tuple[str, list[int]]]] = {}
    for row in connection.execute(POSTINGS, values):
        postings.setdefault(row.word, []).append((row.site, row.ids))
    candidates = {}
    for stored in offers:
        scores: dict[int, float] = {}
        weights = {word: 1 / math.log(2 + counts[word]) for word in chosen[stored.id]}
        for word, weight in weights.items():
            for site, ids in postings.get(word, ()):
                for id_ in ids if site != stored.offer.site else ():
                    scores[id_] = scores.get(id_, 0.0) + weight
        most = nlargest(COMPARED, scores, key=scores.__getitem__)
        whole = sum(weights.values())
        candidates[stored.id] = {id_: scores[id_] / whole for id_ in most}
    return candidates


def rank_proposals(
    stored: StoredOffer, others: Iterable[tuple[StoredOffer, float]], learned: Learned
) -> list[OfferLink]:
    """Returns the proposals of one offer, the most confident first: one for each other article.
    `others` have the share of the rare words that they have in common."""
    best: dict[int, tuple[float, int, OfferComparison]] = {}
    for other, share in others:
        if other.article == stored.article:
            continue
        comparison = compare(stored.offer, other.offer, learned)
        ranked = -(comparison.confidence + share) / 2, other.id, comparison
        if comparison.confidence >= CONFIDENCE_MIN and (
            other.article not in best or ranked[:2] < best[other.article][:2]
        ):
            best[other.article] = ranked
    return [
        OfferLink(
            *order_pair(stored.id, id_),
            OfferComparison(TITLE, round(-negative, 3), comparison.evidence),
        )
        for negative, id_, comparison in nsmallest(KEPT, best.values(), key=lambda row: row[:2])
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
