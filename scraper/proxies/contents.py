"""What the pages contain that come through each proxy, compared with the others': an answer of 200
says nothing of a proxy that answers everything itself, or gets a challenge that nothing names.

A page lacks something where required fields are not there, a listing names no product, or its body
is that of another page. It is asked for again by another proxy. It is believed once a second proxy
says the same whose pages are good as a rule, or so many looks do; where no proxy at all brings good
pages, it is the shop or its definition, and the second look suffices. One process's view, bounded;
pure.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict

# A page is looked at so often at the most, whoever says so.
LOOKS_MAX = 5
# So many proxies, or pages, without a single good one: the proxies are not to blame.
PROXIES_BARREN = 3
PAGES_BARREN = 10
# A proxy is to blame after so many pages, if it lacks so many times what the others do.
LACKED_LEAST = 3
OTHERS_LEAST = 5
TIMES_OTHERS = 4.0
# Counts are halved beyond this, so that what was long ago fades.
COUNTED_MAX = 200
BODIES_MAX = 20_000


# Those that are compared with each other: of a host, and of a kind.
Pages = tuple[str, str]


class Contents:
    """One a process."""

    def __init__(self) -> None:
        self._good: defaultdict[Pages, Counter[str]] = defaultdict(Counter)
        self._lacked: defaultdict[Pages, Counter[str]] = defaultdict(Counter)
        self._bodies: OrderedDict[tuple[str, int], int] = OrderedDict()

    def gave(self, pages: Pages, proxy_id: str) -> None:
        """A page that was all there came through it."""
        _count(self._good[pages], proxy_id)

    def lacked(self, pages: Pages, proxy_id: str) -> None:
        """A page came through it that lacks something."""
        _count(self._lacked[pages], proxy_id)

    def believed(self, pages: Pages, proxy_id: str, looks: int) -> bool:
        """Whether a page that lacks something is so, as seen through that proxy after so many
        looks, this one included."""
        if looks < 2:
            return False
        lacked, good = self._lacked[pages], self._good[pages]
        barren = not good and (len(lacked) >= PROXIES_BARREN or lacked.total() >= PAGES_BARREN)
        return barren or good[proxy_id] > 0 or looks >= LOOKS_MAX

    def to_blame(self, pages: Pages, proxy_id: str) -> bool:
        """Whether its pages lack what those by the other proxies have."""
        good, lacked = self._good[pages], self._lacked[pages]
        mine, others = lacked[proxy_id], lacked.total() - lacked[proxy_id]
        others_good = good.total() - good[proxy_id]
        if mine < LACKED_LEAST or others_good < OTHERS_LEAST:
            return False
        share = mine / (mine + good[proxy_id])
        return share >= TIMES_OTHERS * (others + 1) / (others + others_good + 2)

    def forget(self, pages: Pages, proxy_id: str) -> None:
        """It has been judged, and begins anew."""
        del self._good[pages][proxy_id], self._lacked[pages][proxy_id]

    def repeats(self, proxy_id: str, page_id: int, body: bytes) -> bool:
        """Whether another page had that body through the same proxy."""
        first = self._bodies.setdefault((proxy_id, hash(body)), page_id)
        if len(self._bodies) > BODIES_MAX:
            self._bodies.popitem(last=False)
        return first != page_id


def _count(counts: Counter[str], proxy_id: str) -> None:
    counts[proxy_id] += 1
    if counts[proxy_id] > COUNTED_MAX:
        for each in counts:
            counts[each] = (counts[each] + 1) // 2
