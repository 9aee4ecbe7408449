"""A site's plan of visits, and what share of the time it has kept its promise."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from scraper.plugins.freshness.rules.contract import correct_share, needed_share
from scraper.plugins.freshness.rules.plan import SitePlan
from scraper.plugins.freshness.rules.profile import Profile
from scraper.plugins.freshness.rules.sensors import SensorRecord


class StoredPlan(NamedTuple):
    """A site's plan, and how it was kept so far. `wanted` has the keys for which it was made."""

    plan: SitePlan
    requests: float
    visits: float
    promised: float
    planned_at: datetime
    wanted: dict[str, Any]
    profile: Profile
    seen_days: float = 0.0
    kept_days: float = 0.0
    promise_days: float = 0.0
    hosts: int = 1
    loaded: int = 0
    needed: float = 0.0
    broken: str | None = None
    cards: SensorRecord = SensorRecord()
    dates: SensorRecord = SensorRecord()
    modelled: float = 0.0
    foreseen_days: float = 0.0

    @property
    def kept(self) -> float | None:
        """The share of the time in which what was stored was true; None until it is known."""
        return self.kept_days / self.seen_days if self.seen_days > 0 else None

    @property
    def expected(self) -> float:
        """The share that is promised, or less if formulas foresaw less: they foresee nothing while
        rates are guessed."""
        if self.seen_days <= 0:
            return self.promised
        return min(self.promised, self.foreseen_days / self.seen_days)

    def promise(self, share: float) -> float:
        """Returns the share that is promised, if the formula gives this one."""
        if not self.modelled:
            return share
        return correct_share(share, self.seen_days, self.kept_days, self.foreseen_days)

    def needed_share(self, share: float) -> float:
        """Returns the share that the formula must give, so that this one is promised."""
        if not self.modelled:
            return share
        return needed_share(share, self.seen_days, self.kept_days, self.foreseen_days)

    @property
    def kept_promise(self) -> float | None:
        """The share of the time in which it was true within the promised time."""
        return self.promise_days / self.seen_days if self.seen_days > 0 else None
