"""Sends messages to webhooks, by e-mail, and to the other services that apprise knows.

Addresses inside the network are allowed, since they are the operator's own configuration; in lines
that end with `# public`, which the tab adds under SCRAPER_SETUP_PRIVATE=0, they are not. Through a
proxy of the environment (HTTPS_PROXY), the proxy decides.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from scraper.domain import CrawlStatus
from scraper.http.transport.guard import ANYWHERE, NOWHERE, ForbiddenAddressError
from scraper.infra.database import dumps
from scraper.plugins.alerts.mail import Mail
from scraper.plugins.alerts.sending.connections import guard_connections
from scraper.plugins.alerts.sending.recipients import MAIL, SECRET, Recipient, signing_key
from scraper.plugins.alerts.sending.services import WARNINGS, import_apprise, make_service

# A shop's words are part of a message: what turns text round, and what chats take for a mention or
# a link that hides its address.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_OBEYED = re.compile(r"<(?=[!@#]|\w+:)|@(?=(?:everyone|here|channel|all)\b)|](?=\()", re.IGNORECASE)
# For all recipients together: each has a thread.
SEND_S = 30.0
# In the key of a part of a message, between the recipient's key and the part's own.
PART = "#"
TIMED_OUT = "no answer in time"


@dataclass(frozen=True, slots=True)
class Notice:
    """A message. Title and text hold no sign that chats obey. Webhooks also receive `details`, as
    keys of their JSON; mailboxes receive `mail` instead of title and text."""

    title: str
    text: str
    details: Mapping[str, Any]
    failure: bool = True
    mail: Mail | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", make_harmless(self.title))
        object.__setattr__(self, "text", make_harmless(self.text))


def make_test_notice() -> Notice:
    """Returns the message with which people test a recipient."""
    details: dict[str, Any] = {
        "crawl": None,
        "site": None,
        "status": CrawlStatus.COMPLETED,
        "suspect": False,
        "reasons": [],
    }
    return Notice(
        "scraper: a test", "Alerts about suspect and failed crawls are sent here.", details, False
    )


def make_harmless(text: str) -> str:
    """Takes out control characters, and puts a space after signs that chats would obey.

    >>> make_harmless("<!channel> @here [a shop](https://evil.example), 3 < 5")
    '< !channel> @ here [a shop] (https://evil.example), 3 < 5'
    """
    return _OBEYED.sub(r"\g<0> ", _HIDDEN.sub("", text))


def send_notice(
    notice: Notice, to: Sequence[Recipient], timeout_s: float = SEND_S
) -> list[Recipient]:
    """Sends to all recipients at once, and waits at most `timeout_s`. Returns the recipients that
    accepted the message; never raises. A recipient that answers too late counts as not reached, and
    may receive the message again."""
    failures = find_failures(notice, to, timeout_s)
    return [recipient for recipient in to if recipient not in failures]


def find_failures(
    notice: Notice,
    to: Sequence[Recipient],
    timeout_s: float = SEND_S,
    parts: list[str] | None = None,
) -> dict[Recipient, str]:
    """Sends as `send_notice` does. Returns why the others did not accept the message, without
    addresses. `parts`: the keys of the parts of a long message that recipients have already, to
    which those that they accept now are added."""
    results: dict[Recipient, str | None] = {}
    sending = (notice, results, [] if parts is None else parts)
    threads = [
        threading.Thread(target=_record_delivery, args=(recipient, *sending), daemon=True)
        for recipient in to
    ]
    for thread in threads:
        thread.start()
    timed_out = threading.Event()
    timer = threading.Timer(timeout_s, timed_out.set)
    timer.daemon = True
    timer.start()
    for thread in threads:
        while thread.is_alive() and not timed_out.is_set():
            thread.join(0.1)
    timer.cancel()
    delivered = dict(results)
    reasons = {recipient: delivered.get(recipient, TIMED_OUT) for recipient in to}
    return {recipient: reason for recipient, reason in reasons.items() if reason is not None}


def send_missing(
    notice: Notice, to: Sequence[Recipient], delivered: Collection[str]
) -> tuple[list[str], list[str], list[str]]:
    """Sends to the recipients whose keys are not in `delivered`, without the parts whose keys are.
    Returns the keys of those that accepted it, the keys of the parts that others accepted, and for
    each of these others its label with the reason."""
    missing = [recipient for recipient in to if recipient.key not in delivered]
    parts = list(delivered)
    failures = find_failures(notice, missing, parts=parts)
    unreached = [f"{recipient.label}: {reason}" for recipient, reason in failures.items()]
    failed = {recipient.key for recipient in failures}
    # A recipient that answers too late still adds to the parts.
    accepted = [key for key in parts[len(delivered) :] if key.partition(PART)[0] in failed]
    reached = [recipient.key for recipient in missing if recipient not in failures]
    return reached, accepted, unreached


def _record_delivery(
    recipient: Recipient, notice: Notice, results: dict[Recipient, str | None], parts: list[str]
) -> None:
    private = NOWHERE if recipient.public and not getproxies() else ANYWHERE
    try:
        with guard_connections(private):
            if SECRET in recipient.address:
                results[recipient] = _post_signed(notice, recipient.address)
            else:
                results[recipient] = _notify_service(notice, recipient, parts)
    except ForbiddenAddressError:
        results[recipient] = "its name leads into the own network"
    except OSError as error:
        results[recipient] = error.strerror if type(error.strerror) is str else "no connection"
    except Exception:  # noqa: BLE001 - the text of a library's error may hold the address
        results[recipient] = "the message could not be sent"


def _notify_service(notice: Notice, recipient: Recipient, parts: list[str]) -> str | None:
    """Sends by apprise. Returns why the message was not accepted, or None. Does not send the parts
    of a long message whose keys are in `parts`, and adds the keys of those that are accepted."""
    service = make_service(recipient.address, recipient.kind)
    if service is None:
        return "not an address that messages can be sent to"
    overflow = import_apprise().OverflowMode
    # A webhook's program reads the details from the JSON.
    if hasattr(service, "payload_extras"):
        service.payload_extras.update(notice.details)
    elif recipient.kind not in MAIL and service.overflow_mode is overflow.UPSTREAM:
        # Chats refuse a message that is too long for them.
        service.overflow_mode = overflow.SPLIT
        service.send = _send_missing_parts(service.send, recipient, parts)
    kind = "failure" if notice.failure else "info"
    formats = import_apprise().NotifyFormat
    title, body, body_format = notice.title, notice.text, formats.TEXT
    if notice.mail is not None and recipient.kind in MAIL:
        title, body, body_format = notice.mail.subject, notice.mail.html, formats.HTML
    WARNINGS.begin()
    if service.notify(
        body=body,
        title=title,
        notify_type=import_apprise().NotifyType(kind),
        body_format=body_format,
    ):
        return None
    return WARNINGS.explain()


def _send_missing_parts(
    send: Callable[..., bool], recipient: Recipient, parts: list[str]
) -> Callable[..., bool]:
    """Returns apprise's function that sends one part, for parts that the recipient lacks."""
    numbers = count()

    def send_part(**part: Any) -> bool:
        text = f"{next(numbers)} {part.get('title')} {part.get('body')}"
        key = f"{recipient.key}{PART}{hashlib.blake2s(text.encode(), digest_size=4).hexdigest()}"
        if key not in parts:
            if not send(**part):
                return False
            parts.append(key)
        return True

    return send_part


def _post_signed(notice: Notice, address: str) -> str | None:
    """Signs by standardwebhooks.com. A message that is sent again has the same id. Returns why it
    was not accepted, or None."""
    url, key = address.partition(SECRET)[0], signing_key(address)
    assert key is not None
    kind = "failure" if notice.failure else "info"
    body = dumps(
        {"title": notice.title, "message": notice.text, "type": kind, **notice.details}
    ).encode()
    message_id, now = f"msg_{hashlib.sha256(body).hexdigest()[:32]}", str(int(time.time()))
    signature = hmac.digest(key, f"{message_id}.{now}.".encode() + body, "sha256")
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{b64encode(signature).decode()}",
    }
    parts = urlsplit(url)
    connection_type = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with closing(connection_type(parts.hostname or "", parts.port, timeout=SEND_S)) as connection:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, headers)
        status = connection.getresponse().status
        return None if 200 <= status < 300 else f"HTTP {status}"
