"""Messages to people: webhooks, e-mail and what else apprise knows. The one place that sees the
list of recipients.

Their addresses hold passwords and tokens, so they are in a secret file of their own, and nothing
that is logged, stored or raised shows more of one than its line and kind. They are the operator's
own configuration: addresses inside the network are as good as others, and the guard of pages'
addresses is not for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scraper.errors import ConfigError
from scraper.settings import read_secret

SIZE_MAX = 100_000
RECIPIENTS_MAX = 50
# All recipients together have this long, since they are sent to at once.
SEND_S = 30.0


@dataclass(frozen=True, slots=True)
class Recipient:
    """One line of the list. `label` is all that may be shown of it."""

    line: int
    kind: str
    address: str

    @property
    def label(self) -> str:
        return f"line {self.line} ({self.kind})"

    def __repr__(self) -> str:
        return f"<Recipient {self.label}>"


@dataclass(frozen=True, slots=True)
class Notice:
    """What people are told. `details` goes along to webhooks, as keys of their JSON."""

    title: str
    text: str
    details: Mapping[str, Any]
    failure: bool = True


def recipients(path: Path) -> list[Recipient]:
    """The list: an address a line, `#` for remarks. Raises `ConfigError` with a line a problem,
    none of which shows what the file holds."""
    listed, problems = [], []
    for number, line in enumerate(read_secret(path, "SCRAPER_ALERTS", SIZE_MAX).splitlines(), 1):
        address = line.strip()
        if not address or address.startswith("#"):
            continue
        recipient = Recipient(number, address.partition("://")[0].lower()[:20], address)
        if "://" not in address or _service(recipient) is None:
            problems.append(
                f"{path}:{number}: no address that messages can be sent to (mend: https://… for "
                "a webhook, "
                "mailtos://user:password@mail.example?to=… for e-mail; apprise's documentation "
                "has others)"
            )
        listed.append(recipient)
    if len(listed) > RECIPIENTS_MAX:
        problems.append(f"{path}: more than {RECIPIENTS_MAX} addresses")
    if problems:
        raise ConfigError("\n".join(problems))
    return listed


def send(notice: Notice, to: Sequence[Recipient], timeout_s: float = SEND_S) -> list[Recipient]:
    """Tells all of them at once, and waits for the slowest, but no longer than that. Returns those
    who have got it; raises nothing. Whoever answers too late counts as not told, and may be told
    again."""
    reached: list[Recipient] = []
    threads = [
        threading.Thread(target=_tell, args=(notice, recipient, reached), daemon=True)
        for recipient in to
    ]
    for thread in threads:
        thread.start()
    patience = threading.Event()
    timer = threading.Timer(timeout_s, patience.set)
    timer.daemon = True
    timer.start()
    for thread in threads:
        while thread.is_alive() and not patience.is_set():
            thread.join(0.1)
    timer.cancel()
    return [recipient for recipient in to if recipient in list(reached)]


def _tell(notice: Notice, to: Recipient, reached: list[Recipient]) -> None:
    try:
        service = _service(to)
        if service is None:
            return
        # A webhook gets what the message says as JSON, for programs.
        if hasattr(service, "payload_extras"):
            service.payload_extras.update(notice.details)
        kind = "failure" if notice.failure else "info"
        if service.notify(
            body=notice.text, title=notice.title, notify_type=_apprise().NotifyType(kind)
        ):
            reached.append(to)
    except Exception:  # noqa: BLE001 - some other library's: its text may hold the address
        return


def _service(recipient: Recipient) -> Any:
    """apprise's own object for an address; None where it cannot make one. A plain http(s) address
    that is no service which it knows is a webhook."""
    library = _apprise()
    asset = library.AppriseAsset(
        app_id="scraper", async_mode=False, storage_mode=library.PersistentStoreMode.MEMORY
    )
    address = recipient.address
    try:
        service = library.Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
        if service is None and recipient.kind in ("http", "https"):
            webhook = (
                "json" + ("s" if recipient.kind == "https" else "") + address[len(recipient.kind) :]
            )
            service = library.Apprise.instantiate(webhook, asset=asset, suppress_exceptions=True)
    except Exception:  # noqa: BLE001 - some other library's: its text may hold the address
        return None
    return service


def _apprise() -> Any:
    """Imported by whoever has something to send: it takes half a second. What it and its client log
    shows addresses."""
    for name in ("apprise", "urllib3", "requests"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1)
    import apprise

    return apprise
