"""The statements of linking: offers, links and the plug-in's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.plugins.matching.identity.offer import OfferIdentity, OfferTerms
from scraper.plugins.matching.linking.clusters import OfferLink, Pair
from scraper.plugins.matching.linking.evidence import PRICE_FACTOR, Learned, Offer

# Offers that are read for one code.
PER_CODE_MAX = 300
# Offers of a shop that are listed under a word: a word of more offers finds none.
PER_WORD_MAX = 3000
COLUMNS = sql("plugins/matching/linking/offer_columns.sql")
WAIT_FOR_LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtext('scraper: matching'))")
LOCK = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('scraper: matching'))")
STATE = sa.text("""
SELECT position, start, loaded, brands, price_factor,
       coalesce(learned_at < now() - interval '1 hour', true) AS to_learn FROM matching_state
""")
# An imported catalogue is a shop too: it has offers.
HAS_ONE_SHOP = sa.text("""
SELECT NOT EXISTS (SELECT FROM matching_state) AND NOT EXISTS (SELECT FROM offers)
       AND (SELECT count(*) FROM sites) < 2
""")
BEGIN = sa.text("""
INSERT INTO matching_state (id, start, price_factor) VALUES (1, :start, :factor)
ON CONFLICT (id) DO UPDATE SET position = NULL, loaded = 0, start = :start
""")
MOVE = sa.text("UPDATE matching_state SET position = :position, loaded = :loaded WHERE id = 1")
LEARN = sa.text("""
UPDATE matching_state SET brands = CAST(:brands AS jsonb), price_factor = :factor,
       learned_at = now() WHERE id = 1
""")
PRODUCTS = sa.text("""
SELECT p.id AS number, s.name AS site, p.external_id, p.url, CAST(p.data AS text) AS data_json,
       p.delisted_at IS NULL AS listed
  FROM products p JOIN sites s ON s.id = p.site_id
 WHERE p.id > :after ORDER BY p.id LIMIT :most
""")
BY_KEY = sa.text(f"""
SELECT {COLUMNS} FROM offers o
 WHERE (site, external_id) IN (SELECT * FROM unnest(CAST(:sites AS text[]), CAST(:ids AS text[])))
""")
SIBLINGS = sa.text(f"""
SELECT {COLUMNS} FROM offers o
 WHERE article_id IN (SELECT article_id FROM offers WHERE id = ANY (:ids))
""")
BY_BRAND = sa.text(
    "SELECT id FROM offers WHERE brand = ANY (:brands) AND gtin IS NOT NULL LIMIT 20000"
)
UPSERT = sa.text(sql("plugins/matching/linking/upsert_offers.sql"))
SCOPE = sa.text(sql("plugins/matching/linking/read_scope.sql"))
DECISIONS = sa.text("""
SELECT left_id, right_id, state FROM offer_links
 WHERE left_id = ANY (:ids) AND state IN ('confirmed', 'refused')
""")
# Similar titles are looked for once per article: by the offer after which it is called.
SET_ARTICLES = sa.text("""
UPDATE offers o SET article_id = i.article_id,
       proposed_at = CASE WHEN o.id <> i.article_id THEN coalesce(o.proposed_at, now()) END
  FROM unnest(CAST(:ids AS bigint[]), CAST(:articles AS bigint[])) AS i(id, article_id)
 WHERE o.id = i.id
""")
# A pair that is linked no longer is a proposal at most; it is proposed again if titles agree.
UNLINK = sa.text("""
DELETE FROM offer_links l WHERE state = 'linked' AND left_id = ANY (:ids)
   AND NOT EXISTS (SELECT FROM unnest(CAST(:lefts AS bigint[]), CAST(:rights AS bigint[]))
                     AS kept(l, r) WHERE kept.l = l.left_id AND kept.r = l.right_id)
""")
LINK = sa.text("""
INSERT INTO offer_links AS l (left_id, right_id, method, state, confidence, evidence)
SELECT i.left_id, i.right_id, i.method, i.state, i.confidence, i.evidence
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS i(left_id bigint, right_id bigint, method text,
       state text, confidence float, evidence jsonb)
ON CONFLICT (left_id, right_id) DO UPDATE SET method = excluded.method, state = excluded.state,
       confidence = excluded.confidence, evidence = excluded.evidence
 WHERE l.state = 'proposed' OR l.state = 'linked' AND excluded.state = 'linked'
""")
COUNT_WORDS = sa.text("""
INSERT INTO offer_words AS w (word, offers)
SELECT word, n FROM unnest(CAST(:words AS text[]), CAST(:counts AS int[])) AS i(word, n)
 ORDER BY word
ON CONFLICT (word) DO UPDATE SET offers = w.offers + excluded.offers
""")
ADD_POSTINGS = sa.text("""
INSERT INTO offer_postings AS p (word, site, ids)
SELECT word, site, ids FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(word text, site text, ids bigint[])
 ORDER BY word, site
ON CONFLICT (word, site) DO UPDATE SET ids = p.ids || excluded.ids
 WHERE cardinality(p.ids) < :most
""")
# The ratios and brands of offers of two shops with one GTIN.
GTIN_PAIRS = sa.text("""
SELECT a.brand AS brand, b.brand AS other_brand, a.gtin,
       CASE WHEN a.currency = b.currency AND a.price > 0 AND b.price > 0
            THEN CAST(greatest(a.price / b.price, b.price / a.price) AS float) END AS ratio
  FROM (SELECT * FROM offers WHERE gtin IS NOT NULL ORDER BY updated_at DESC LIMIT 20000) a
  JOIN offers b ON b.gtin = a.gtin AND b.site > a.site LIMIT 100000
""")
EVENT = sa.text("""
INSERT INTO article_events (article_id, crawl_id, before, after)
SELECT i.article_id, i.crawl_id, i.before, i.after
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(article_id bigint, crawl_id bigint, before jsonb, after jsonb)
""")
FORGET_EVENTS = sa.text("""
DELETE FROM article_events WHERE at < now() - interval '30 days'
   AND id IN (SELECT id FROM article_events ORDER BY id LIMIT 10000)
""")


@dataclass(frozen=True, slots=True)
class IncomingOffer:
    """An offer as a crawl or a catalogue gives it now. `crawl` is None for a catalogue."""

    site: str
    external_id: str
    url: str | None
    identity: OfferIdentity
    terms: OfferTerms
    listed: bool = True
    crawl: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The shop's name, and the shop's id of the product."""
        return self.site, self.external_id

    def row(self) -> dict[str, Any]:
        identity = self.identity
        return {
            "site": self.site,
            "external_id": self.external_id,
            "url": self.url,
            "title": identity.title,
            "gtin": identity.gtin_key,
            "brand": identity.brand,
            "mpn": identity.mpn,
            "attributes": {name: sorted(values) for name, values in identity.attributes.items()},
            "words": list(identity.words),
            **asdict(self.terms),
            "listed": self.listed,
        }


@dataclass(frozen=True, slots=True)
class StoredOffer:
    """An offer as stored, with its article."""

    offer: Offer
    external_id: str
    url: str | None
    listed: bool
    article: int

    @property
    def id(self) -> int:
        return self.offer.id


@dataclass(frozen=True, slots=True)
class State:
    """How far the plug-in has read. `position` is None while it loads products."""

    position: int | None
    start: int
    loaded: int
    learned: Learned
    to_learn: bool


def lock(connection: sa.Connection) -> bool:
    """Takes the lock of matching for the transaction. Returns False if another process has it."""
    return bool(connection.execute(LOCK).scalar())


def wait_for_lock(connection: sa.Connection) -> None:
    """Takes the lock once the process that has it ends its transaction, within some seconds."""
    connection.execute(WAIT_FOR_LOCK)


def begin(connection: sa.Connection, start: int) -> None:
    """Starts to load all products, and goes on from the position `start` of the feed."""
    connection.execute(BEGIN, {"start": start, "factor": PRICE_FACTOR})


def has_one_shop(connection: sa.Connection) -> bool:
    """Returns whether a second shop is missing, and nothing was linked yet."""
    return bool(connection.execute(HAS_ONE_SHOP).scalar_one())


def read_state(connection: sa.Connection) -> State | None:
    """Returns the state; None before the first run."""
    row = connection.execute(STATE).one_or_none()
    if row is None:
        return None
    learned = Learned(row.brands, row.price_factor)
    return State(row.position, row.start, row.loaded, learned, row.to_learn)


def read_learned(connection: sa.Connection) -> Learned:
    """Returns what links have taught so far."""
    state = read_state(connection)
    return Learned({}) if state is None else state.learned


def move(connection: sa.Connection, position: int | None, loaded: int) -> None:
    connection.execute(MOVE, {"position": position, "loaded": loaded})


def read_products(connection: sa.Connection, after: int, most: int) -> Sequence[sa.Row[Any]]:
    return connection.execute(PRODUCTS, {"after": after, "most": most}).all()


def read_by_key(
    connection: sa.Connection, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], StoredOffer]:
    """Returns the stored offers, by site and id."""
    values = {"sites": [site for site, _ in keys], "ids": [id_ for _, id_ in keys]}
    stored = map(stored_offer, connection.execute(BY_KEY, values))
    return {(row.offer.site, row.external_id): row for row in stored}


def upsert_offers(
    connection: sa.Connection, offers: Iterable[IncomingOffer]
) -> dict[tuple[str, str], int]:
    """Writes offers. Returns their ids, by site and id."""
    rows = connection.execute(UPSERT, {"rows": dumps([offer.row() for offer in offers])}).all()
    return {(row.site, row.external_id): row.id for row in rows}


def read_scope(
    connection: sa.Connection, ids: Collection[int], gtins: Collection[str], mpns: Collection[str]
) -> list[StoredOffer]:
    """Returns the offers whose articles may change with the offers `ids`, which had the codes
    `gtins` and `mpns` before."""
    values = {"ids": list(ids), "gtins": list(gtins), "mpns": list(mpns), "most": PER_CODE_MAX}
    return [stored_offer(row) for row in connection.execute(SCOPE, values)]


def read_decisions(connection: sa.Connection, ids: Collection[int]) -> tuple[set[Pair], set[Pair]]:
    """Returns the pairs that a person confirmed, and those refused."""
    decided: dict[str, set[Pair]] = {"confirmed": set(), "refused": set()}
    for row in connection.execute(DECISIONS, {"ids": list(ids)}):
        decided[row.state].add((row.left_id, row.right_id))
    return decided["confirmed"], decided["refused"]


def write_articles(connection: sa.Connection, articles: dict[int, int]) -> None:
    if articles:
        values = {"ids": list(articles), "articles": list(articles.values())}
        connection.execute(SET_ARTICLES, values)


def write_links(
    connection: sa.Connection, ids: Collection[int], links: Sequence[OfferLink]
) -> None:
    """Makes `links` the automatic links of the offers `ids`."""
    automatic = [link for link in links if link.comparison.method != "person"]
    values = {
        "ids": list(ids),
        "lefts": [link.left for link in automatic],
        "rights": [link.right for link in automatic],
    }
    connection.execute(UNLINK, values)
    insert_links(connection, automatic, "linked")


def insert_links(connection: sa.Connection, links: Iterable[OfferLink], state: str) -> None:
    """Inserts links. What a person has decided stays, and a proposal never replaces a link."""
    rows = [
        {
            "left_id": link.left,
            "right_id": link.right,
            "method": link.comparison.method,
            "state": state,
            "confidence": link.comparison.confidence,
            "evidence": link.comparison.evidence,
        }
        for link in links
    ]
    if rows:
        connection.execute(LINK, {"rows": dumps(rows)})


def stored_offer(row: Any) -> StoredOffer:
    """Returns the offer of a row with `COLUMNS`."""
    code, _, level = (row.gtin or "").partition("/")
    attributes = {name: frozenset(values) for name, values in row.attributes.items()}
    identity = OfferIdentity(
        row.title,
        code or None,
        int(level or 0),
        row.brand,
        row.mpn,
        attributes,
        tuple(row.words),
    )
    terms = OfferTerms(row.price, row.currency, row.unit_price, row.unit, row.in_stock)
    offer = Offer(row.id, row.site, identity, terms)
    return StoredOffer(offer, row.external_id, row.url, row.listed, row.article_id)


def read_articles_of(
    connection: sa.Connection, ids: Collection[int]
) -> dict[int, list[StoredOffer]]:
    """Returns the offers of the articles that some offers belong to, by article."""
    articles: dict[int, list[StoredOffer]] = {}
    for stored in map(stored_offer, connection.execute(SIBLINGS, {"ids": list(ids)})):
        articles.setdefault(stored.article, []).append(stored)
    return articles


def add_words(connection: sa.Connection, words: Iterable[tuple[str, str, int]]) -> None:
    """Lists offers under words of their titles: (word, site, id)."""
    postings: dict[tuple[str, str], list[int]] = {}
    for word, site, id_ in words:
        postings.setdefault((word, site), []).append(id_)
    if postings:
        counts: Counter[str] = Counter()
        for (word, _), ids in postings.items():
            counts[word] += len(ids)
        values = {"words": list(counts), "counts": list(counts.values())}
        connection.execute(COUNT_WORDS, values)
        rows = [{"word": word, "site": site, "ids": i} for (word, site), i in postings.items()]
        connection.execute(ADD_POSTINGS, {"rows": dumps(rows), "most": PER_WORD_MAX})


def insert_events(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(EVENT, {"rows": dumps(rows)})


def forget_events(connection: sa.Connection) -> None:
    connection.execute(FORGET_EVENTS)


def read_gtin_pairs(connection: sa.Connection) -> Iterable[sa.Row[Any]]:
    return connection.execute(GTIN_PAIRS)


def store_learned(connection: sa.Connection, learned: Learned) -> None:
    values = {"brands": dumps(learned.brands), "factor": learned.price_factor}
    connection.execute(LEARN, values)


def read_ids_of_brands(connection: sa.Connection, brands: Collection[str]) -> list[int]:
    return list(connection.execute(BY_BRAND, {"brands": list(brands)}).scalars())
