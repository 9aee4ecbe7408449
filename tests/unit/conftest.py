"""What all unit tests share."""

from __future__ import annotations

import gc

# Tests leave few cycles behind: looking for them after every 700 objects takes a tenth of the time.
OBJECTS_BETWEEN_COLLECTIONS = 50_000
gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
