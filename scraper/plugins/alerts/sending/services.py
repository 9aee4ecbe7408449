"""apprise's objects for addresses, and what apprise says of a message that it could not send.

apprise and its HTTP clients show addresses in their logs, so these logs go nowhere else.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

_STATUS = re.compile(r"\berror=([1-5]\d\d)\b")


class Warnings(logging.Handler):
    """Keeps what apprise says in this thread, which may hold addresses: only a status or the kind
    of the failure leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self._own = threading.local()

    def begin(self) -> None:
        """Forgets earlier warnings of this thread."""
        self._own.texts = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a warning of a thread that sends."""
        if hasattr(self._own, "texts"):
            self._own.texts.append(record.getMessage())

    def explain(self) -> str:
        """Returns why the last message of this thread was not accepted."""
        text = " ".join(self._own.texts)
        status = _STATUS.search(text)
        if status is not None:
            return f"HTTP {status[1]}"
        return "no connection" if "onnection" in text else "the service refused it"


WARNINGS = Warnings()


def make_service(address: str, kind: str) -> Any:
    """Returns apprise's object for an address; None if it cannot make one. An http(s) address that
    is not a service known to apprise is a webhook."""
    library = import_apprise()
    asset = library.AppriseAsset(
        app_id="scraper", async_mode=False, storage_mode=library.PersistentStoreMode.MEMORY
    )
    try:
        service = library.Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
        if service is None and kind in ("http", "https"):
            webhook = "json" + ("s" if kind == "https" else "") + address[len(kind) :]
            service = library.Apprise.instantiate(webhook, asset=asset, suppress_exceptions=True)
    except Exception:  # noqa: BLE001 - the text of a library's error may hold the address
        return None
    return service


def import_apprise() -> Any:
    """Imports apprise, which takes half a second, and silences its and its HTTP clients' loggers,
    since they show addresses."""
    for name in ("apprise", "urllib3", "requests"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.setLevel(logging.WARNING if name == "apprise" else logging.CRITICAL + 1)
    logging.getLogger("apprise").handlers[:] = [WARNINGS]
    import apprise

    return apprise
