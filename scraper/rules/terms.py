"""What counts for one host in this process: the budgets of its sites, what their robots.txt asks,
an operator's word.

Pure but for what it remembers. Refuses to decide which of them is stronger: that is
`scraper.rules.budget`'s.
"""

from __future__ import annotations

from scraper.rules.budget import (
    NO_OVERRIDE,
    Budget,
    Override,
    in_force,
)


class Terms:
    """A host's terms. Whatever changes one of them returns whether the budget in force is another
    one now."""

    def __init__(self, override: Override = NO_OVERRIDE) -> None:
        self.override = override
        self.budget = Budget()
        self._sites: dict[int, Budget] = {}
        self._delays: dict[int, float] = {}
        # the sites that had a page since the last sweep
        self._used: set[int] = set()
        self._used_before: set[int] = set()

    def site(self, site: int, budget: Budget) -> bool:
        self._used.add(site)
        if self._sites.get(site) is budget:
            return False
        self._sites[site] = budget
        return self._reckon()

    def crawl_delay(self, site: int, seconds: float) -> bool:
        if self._delays.get(site, 0.0) == seconds:
            return False
        self._delays[site] = seconds
        return self._reckon()

    def steer(self, override: Override) -> bool:
        self.override = override
        return self._reckon()

    def sweep(self) -> bool:
        """A site that had no page here for two sweeps does not bind the others any longer."""
        used, changed = self._used | self._used_before, False
        if used and len(self._sites) > 1 and (gone := self._sites.keys() - used):
            for site in gone:
                del self._sites[site]
                self._delays.pop(site, None)
            changed = self._reckon()
        self._used_before, self._used = self._used, set()
        return changed

    def _reckon(self) -> bool:
        before = self.budget
        self.budget = in_force(
            self._sites.values(), self.override, max(self._delays.values(), default=0.0)
        )
        return self.budget != before
