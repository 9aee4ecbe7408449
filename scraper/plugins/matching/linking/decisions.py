"""What a person decides about two offers: it holds for good, whatever a crawl finds."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.plugins.matching.linking import step, store
from scraper.plugins.matching.linking.clusters import order_pair

Decision = Literal["confirmed", "refused"]
DECIDE = sa.text("""
INSERT INTO offer_links (left_id, right_id, method, state, confidence, decided_by, decided_at)
VALUES (:left, :right, 'person', :state, 1, :by, now())
ON CONFLICT (left_id, right_id) DO UPDATE SET state = :state, decided_by = :by, decided_at = now()
""")
KNOWN = sa.text("SELECT article_id FROM offers WHERE id = ANY (:ids)")
ID = sa.text("SELECT id FROM offers WHERE site = :site AND external_id = :id")


def decide_link(engine: sa.Engine, one: int, other: int, *, state: Decision, by: str) -> None:
    """Stores a decision about two offers, and groups their articles again. Raises
    `NotFoundError`."""
    left, right = order_pair(one, other)
    with engine.begin() as connection:
        both = connection.execute(KNOWN, {"ids": [left, right]}).all()
        if len(both) != 2:
            raise NotFoundError(f"the offers {one} and {other} are not both there")
        store.wait_for_lock(connection)
        values = {"left": left, "right": right, "state": state, "by": by}
        connection.execute(DECIDE, values)
        step.relink_offers(connection, {left, right}, store.read_learned(connection))


def decide_keys(
    engine: sa.Engine, one: tuple[str, str], other: tuple[str, str], *, state: Decision, by: str
) -> None:
    """Likewise, of offers named by shop and id."""
    decide_link(engine, find_offer(engine, *one), find_offer(engine, *other), state=state, by=by)


def find_offer(engine: sa.Engine, site: str, external_id: str) -> int:
    """Returns the id of a shop's offer. Raises `NotFoundError`."""
    with engine.connect() as connection:
        id_ = connection.execute(ID, {"site": site, "id": external_id}).scalar()
    if id_ is None:
        raise NotFoundError(f"{site} has no offer {external_id!r}")
    return int(id_)
