"""Messages to people: webhooks, e-mail and what else apprise knows. The one place that sees the
list of recipients.

Their addresses hold passwords and tokens, so they are in a secret file of their own, and nothing
that is logged, stored or raised shows more of one than its line and kind. They are the operator's
own configuration: addresses inside the network are as good as others, and the guard of pages'
addresses is not for them.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scraper.errors import ConfigError
from scraper.infra.database import dumps
from scraper.plugins.alerts.keys import RECIPIENT
from scraper.settings import read_secret

# A line may begin with names, as apprise's own lists do: `garden, ops = https://…`.
NAMES = re.compile(rf"({RECIPIENT}(?:\s*,\s*{RECIPIENT})*)\s*=\s*(?=\S*://)")
REMARK = re.compile(r"(?:^|\s)#.*")
SIZE_MAX = 100_000
RECIPIENTS_MAX = 50
# What follows it in a web address is the key that a webhook's messages are signed with.
SECRET = "#whsec_"  # noqa: S105 - what stands before one
KEY_MIN = 16
# All recipients together have this long, since they are sent to at once.
SEND_S = 30.0


@dataclass(frozen=True, slots=True)
class Recipient:
    """One line of the list. `label` is all that may be shown of it. One with names is told only of
    what is for one of them."""

    line: int
    kind: str
    address: str
    names: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        return f"line {self.line} ({self.kind})"

    @property
    def key(self) -> str:
        """The same wherever its line stands. Too short to find an address by."""
        digest = hashlib.blake2s(self.address.encode(), digest_size=4).hexdigest()
        return f"{self.kind} {digest}"

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
    """The list: an address a line, with names or without, `#` for remarks. Raises `ConfigError`
    with a line a problem, none of which shows what the file holds."""
    listed, problems = [], []
    for number, line in enumerate(read_secret(path, "SCRAPER_ALERTS", SIZE_MAX).splitlines(), 1):
        address = REMARK.sub("", line).strip()
        if not address:
            continue
        names = NAMES.match(address)
        address = address[names.end() :] if names else address
        kind = address.partition("://")[0].lower()[:20]
        named = frozenset(re.split(r"\s*,\s*", names[1])) if names else frozenset()
        recipient = Recipient(number, kind, address, named)
        usable = _secret(address) if SECRET in address else _service(recipient)
        if "://" not in address or usable is None:
            problems.append(
                f"{path}:{number}: no address that messages can be sent to (fix: https://… for "
                "a webhook, https://…#whsec_BASE64 for a signed one, "
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


def send_missing(
    notice: Notice, to: Sequence[Recipient], delivered: Collection[str]
) -> tuple[list[str], list[str]]:
    """Tells those who have not got it before, by their keys. Returns the keys of those who have got
    it now, and the labels of those who have not."""
    missing = [recipient for recipient in to if recipient.key not in delivered]
    reached = send(notice, missing)
    unreached = [recipient.label for recipient in missing if recipient not in reached]
    return [recipient.key for recipient in reached], unreached


def _tell(notice: Notice, to: Recipient, reached: list[Recipient]) -> None:
    try:
        if SECRET in to.address:
            if _post_signed(notice, to.address):
                reached.append(to)
            return
        service = _service(to)
        if service is None:
            return
        # A webhook gets what the message says as JSON, for programs.
        if hasattr(service, "payload_extras"):
            service.payload_extras.update(notice.details)
        kind = "failure" if notice.failure else "info"
        if service.notify(
            body=notice.text,
            title=notice.title,
            notify_type=_apprise().NotifyType(kind),
            body_format=_apprise().NotifyFormat.TEXT,
        ):
            reached.append(to)
    except Exception:  # noqa: BLE001 - some other library's: its text may hold the address
        return


def _secret(address: str) -> bytes | None:
    """The key of a signed webhook; None where there is none, or it is no web address."""
    url, _, secret = address.partition(SECRET)
    try:
        key = b64decode(secret, validate=True)
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return key if len(key) >= KEY_MIN and host and url.startswith(("http://", "https://")) else None


def _post_signed(notice: Notice, address: str) -> bool:
    """As standardwebhooks.com has it. A message that comes again has the same id."""
    url, key = address.partition(SECRET)[0], _secret(address)
    assert key is not None
    kind = "failure" if notice.failure else "info"
    body = dumps(
        {"title": notice.title, "message": notice.text, "type": kind, **notice.details}
    ).encode()
    message_id, now = f"msg_{hashlib.sha256(body).hexdigest()[:32]}", str(int(time.time()))
    signed = hmac.digest(key, f"{message_id}.{now}.".encode() + body, "sha256")
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{b64encode(signed).decode()}",
    }
    parts = urlsplit(url)
    opened = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(opened(parts.hostname or "", parts.port, timeout=SEND_S)) as connection:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, headers)
        return 200 <= connection.getresponse().status < 300


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
