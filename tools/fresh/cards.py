"""Cards on listings as sensors: how many changes are known within a day, for how many requests."""

from __future__ import annotations

import random
from typing import NamedTuple

from scraper.plugins.freshness.rules.sensors import SensorRecord

CARDS = 24
CHANGES_A_DAY = 0.05
# Listings are read a little more often than once a day, so that no change waits for longer.
READ_EVERY = 23 / 24
# How many pages are visited a day only to confirm what cards say.
CONFIRMED = 0.002


class CardsMeasured(NamedTuple):
    """The share of changes known within a day, requests as a share of one for each page and day,
    and the sensor's record."""

    known: float
    requests: float
    record: SensorRecord


def simulate_cards(pages: int, days: int, rng: random.Random) -> CardsMeasured:
    """Reads the listings of a shop whose cards are right, and visits the pages that they signal."""
    changes, in_time, requests = 0, 0, 0.0
    record = SensorRecord()
    next_change = [rng.expovariate(CHANGES_A_DAY) for _ in range(pages)]
    listings = -(-pages // CARDS)
    reads = int(days / READ_EVERY)
    for read in range(reads):
        for listing in range(listings):
            at = (read + listing / listings) * READ_EVERY
            requests += 1
            for page in range(listing * CARDS, min(listing * CARDS + CARDS, pages)):
                first = next_change[page]
                signalled = first <= at
                confirmed = rng.random() < CONFIRMED * READ_EVERY
                if signalled or confirmed:
                    requests += 1
                    record = record.after_visit(
                        signalled=signalled, changed=signalled, chance=CHANGES_A_DAY
                    )
                while next_change[page] <= at:
                    changes += 1
                    in_time += at - next_change[page] <= 1
                    next_change[page] += rng.expovariate(CHANGES_A_DAY)
    asked = requests / (pages * reads * READ_EVERY)
    return CardsMeasured(in_time / changes, asked, record)
