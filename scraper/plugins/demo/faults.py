"""Faults of the sample shop: slow answers, temporary failures, answers that never come, outages.

They are deterministic: a product page's faults depend on the seed, its path, the visit and the
number of the attempt. An outage is switched on and off from outside (`/_control/options`) and hits
every page, robots.txt included.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random

from pydantic import BaseModel, ConfigDict, Field


class Fault(StrEnum):
    INTERNAL = "500"
    UNAVAILABLE = "503"
    RESET = "reset"
    HANG = "hang"


class ShopOptions(BaseModel):
    """Options that may change while the shop serves (`/_control/options`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    latency_ms: float = Field(
        0, ge=0, le=60_000, description="mean time to an answer; each takes half to one and a half"
    )
    fail_share: float = Field(
        0, ge=0, le=1, description="product pages whose first attempt or two fail"
    )
    hang_share: float = Field(
        0, ge=0, le=1, description="product pages whose first attempt is never answered"
    )
    gzip: bool = Field(False, description="compress for clients that accept it")
    outage: Fault | None = Field(None, description="fault of every page: 500, 503, reset or hang")
    change_rate: float = Field(
        0, ge=0, le=86_400, description="price changes of a product a day, on average, at any time"
    )


def choose_fault(
    options: ShopOptions, seed: int, path: str, visit: int, attempt: int
) -> Fault | None:
    """Returns the fault of the `attempt` (1, 2 …) on a product page; None from the third on."""
    if attempt > 2 or not (options.fail_share or options.hang_share):
        return None
    rng = Random(f"{seed}:{path}:{visit}:faults")
    drawn, kind, times = (
        rng.random(),
        rng.choice((Fault.INTERNAL, Fault.UNAVAILABLE, Fault.RESET)),
        rng.choice((1, 2)),
    )
    if drawn < options.hang_share:
        return Fault.HANG if attempt == 1 else None
    if drawn < options.hang_share + options.fail_share:
        return kind if attempt <= times else None
    return None
