"""How often an account may try to log in, and what is done about one that cannot. Pure: numbers and
words.

Shops lock accounts after a few wrong passwords. So there is one try at a time for the whole fleet,
none within the rest that follows a failure, and a rejected account gets `REJECTED`'s few tries and
no more until an operator fixes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

QUARANTINE_S = 6 * 3600.0
# A host that does not answer is asked for a quarter of an hour, as for pages.
PATIENCE_S = 900.0
# With so many logins a page may be logged out, and be believed, and pay nothing.
FREE_TIMES = 4
# A changed password counts at once, but not two that workers disagree about.
CHANGE_EVERY_S = 300.0


class Trouble(StrEnum):
    """Why an account is not logged in."""

    # The host answered, and did not let it in.
    REJECTED = "rejected"
    # There was no answer, or a fault of the host's or a proxy's.
    UNAVAILABLE = "unavailable"
    # The definition does not fit what is there.
    MISFIT = "misfit"
    # It was let in, and pages look logged out all the same.
    USELESS = "useless"


@dataclass(frozen=True, slots=True)
class Rule:
    """`rests_s`: after the first failure, the second …; after `tries` in a row it is quarantined
    (0: never by count)."""

    rests_s: tuple[float, ...]
    tries: int


RULES = {
    Trouble.REJECTED: Rule((60.0,), 2),
    Trouble.UNAVAILABLE: Rule((5.0, 15.0, 30.0, 60.0), 0),
    Trouble.MISFIT: Rule((10.0, 60.0), 3),
    Trouble.USELESS: Rule((10.0, 60.0), 3),
}
