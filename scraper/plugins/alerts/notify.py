"""Sends messages to webhooks, by e-mail, and to the other services that apprise knows. No other
module reads the list of recipients.

Addresses hold passwords and tokens. They are in a secret file of their own, and logs, tables and
errors show only an address's line and kind. Addresses inside the network are allowed, since they
are the operator's own configuration; in lines that end with `# public`, which the tab adds under
SCRAPER_SETUP_PRIVATE=0, they are not. Through a proxy of the environment (HTTPS_PROXY), the proxy
decides.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from socket import SOCK_STREAM
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from scraper.domain import CrawlStatus
from scraper.errors import ConfigError
from scraper.http.transport.guard import (
    ANYWHERE,
    NOWHERE,
    ForbiddenAddressError,
    Networks,
    forbidden_reason,
)
from scraper.infra.database import dumps
from scraper.infra.secret_files import read_secret
from scraper.plugins.alerts.keys import RECIPIENT
from scraper.plugins.alerts.mail import Mail

# A line may begin with names, as apprise's own lists do: `garden, ops = https://…`.
NAMES = re.compile(rf"({RECIPIENT}(?:\s*,\s*{RECIPIENT})*)\s*=\s*(?=\S*://)")
REMARK = re.compile(r"(?:^|\s)#.*")
PUBLIC = "  # public"
SIZE_MAX = 100_000
RECIPIENTS_MAX = 50
# In a web address, the key that signs a webhook's messages follows this.
SECRET = "#whsec_"  # noqa: S105 - a prefix, not a secret
KEY_MIN = 16
# A shop's words are part of a message: what turns text round, and what chats take for a mention or
# a link that hides its address.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_OBEYED = re.compile(r"<(?=[!@#]|\w+:)|@(?=(?:everyone|here|channel|all)\b)|](?=\()", re.IGNORECASE)
# For all recipients together: each has a thread.
SEND_S = 30.0
# The schemes whose addresses begin with a host; those of other services may begin with a token.
MAIL = ("mailto", "mailtos")
WITH_HOST = ("http", "https", "json", "jsons", *MAIL)
_STATUS = re.compile(r"\berror=([1-5]\d\d)\b")
TIMED_OUT = "no answer in time"
_SENDING_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_sending = threading.local()


@dataclass(frozen=True, slots=True)
class Recipient:
    """One line of the list. Logs and errors may show only its `label`. A recipient with names
    receives only messages for one of these names. A `public` one is reached at public addresses
    only."""

    line: int
    kind: str
    address: str
    names: frozenset[str] = frozenset()
    public: bool = False

    @property
    def label(self) -> str:
        return f"line {self.line} ({self.kind})"

    @property
    def host(self) -> str:
        """The host of a web or mail address; empty if the text that looks like it may be secret."""
        scheme, _, rest = self.address.partition("://")
        try:
            parts = urlsplit(self.address)
            host = parts.hostname or ""
        except ValueError:
            return ""
        # A password with a sign such as `#` would end the host too early.
        is_cut = "@" in rest[len(parts.netloc) :].partition("?")[0]
        return host if scheme.lower() in WITH_HOST and not is_cut else ""

    @property
    def key(self) -> str:
        """Identifies the recipient on whichever line it is. Too short to recover the address."""
        digest = hashlib.blake2s(self.address.encode(), digest_size=4).hexdigest()
        return f"{self.kind} {digest}"

    def __repr__(self) -> str:
        return f"<Recipient {self.label}>"


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


def load_recipients(path: Path) -> list[Recipient]:
    """Reads the list: one address per line, with or without names; `#` starts a remark. Raises
    `ConfigError` with one line per problem, without addresses."""
    return parse_recipients(read_secret(path, "SCRAPER_ALERTS", SIZE_MAX), path)


def parse_recipients(text: str, path: Path) -> list[Recipient]:
    """Reads the text of a list, as `load_recipients` does."""
    listed: list[Recipient] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        address = REMARK.sub("", line).strip()
        if not address:
            continue
        names = NAMES.match(address)
        address = address[names.end() :] if names else address
        kind = address.partition("://")[0].lower()[:20]
        named = frozenset(re.split(r"\s*,\s*", names[1])) if names else frozenset()
        recipient = Recipient(number, kind, address, named, line.rstrip().endswith(PUBLIC))
        usable = _signing_key(address) if SECRET in address else _make_service(recipient)
        if "://" not in address or usable is None:
            problems.append(
                f"{path}:{number}: not an address that messages can be sent to (fix: https://… for "
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


def send_notice(
    notice: Notice, to: Sequence[Recipient], timeout_s: float = SEND_S
) -> list[Recipient]:
    """Sends to all recipients at once, and waits at most `timeout_s`. Returns the recipients that
    accepted the message; never raises. A recipient that answers too late counts as not reached, and
    may receive the message again."""
    failures = find_failures(notice, to, timeout_s)
    return [recipient for recipient in to if recipient not in failures]


def find_failures(
    notice: Notice, to: Sequence[Recipient], timeout_s: float = SEND_S
) -> dict[Recipient, str]:
    """Sends as `send_notice` does. Returns why the others did not accept the message, without
    addresses."""
    results: dict[Recipient, str | None] = {}
    threads = [
        threading.Thread(target=_record_delivery, args=(notice, recipient, results), daemon=True)
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
) -> tuple[list[str], list[str]]:
    """Sends to the recipients whose keys are not in `delivered`. Returns the keys of those that
    accepted it, and for each of those that did not its label with the reason."""
    missing = [recipient for recipient in to if recipient.key not in delivered]
    failures = find_failures(notice, missing)
    unreached = [f"{recipient.label}: {reason}" for recipient, reason in failures.items()]
    return [recipient.key for recipient in missing if recipient not in failures], unreached


def _record_delivery(
    notice: Notice, recipient: Recipient, results: dict[Recipient, str | None]
) -> None:
    private = NOWHERE if recipient.public and not getproxies() else ANYWHERE
    try:
        with guard_connections(private):
            if SECRET in recipient.address:
                results[recipient] = _post_signed(notice, recipient.address)
            else:
                results[recipient] = _notify_service(notice, recipient)
    except ForbiddenAddressError:
        results[recipient] = "its name leads into the own network"
    except OSError as error:
        results[recipient] = error.strerror if type(error.strerror) is str else "no connection"
    except Exception:  # noqa: BLE001 - the text of a library's error may hold the address
        results[recipient] = "the message could not be sent"


@contextmanager
def guard_connections(private: Networks) -> Iterator[None]:
    """Lets this thread connect only to public addresses and to those in `private`, and never to a
    cloud's metadata service. Other connections raise `ForbiddenAddressError`.

    A recipient's name may lead elsewhere than when the tab added it. The libraries that send look
    names up themselves, so only an audit hook sees the address of the connection itself, and no
    rebound name comes between. The hook stays in the process, and does nothing in other threads.
    """
    _add_hook()
    _sending.private = private
    try:
        yield
    finally:
        del _sending.private


@cache
def _add_hook() -> None:
    sys.addaudithook(_check_event)


def _check_event(event: str, args: tuple[Any, ...]) -> None:
    if event not in _SENDING_EVENTS or not hasattr(_sending, "private"):
        return
    connection, address = args
    # The address of a Unix socket is a text. A datagram (syslog) may go to a name, whose address is
    # not known here: it is refused where only public ones are allowed.
    is_judged = connection.type == SOCK_STREAM or _sending.private != ANYWHERE
    if isinstance(address, tuple) and is_judged:
        host = str(address[0]).partition("%")[0]
        reason = forbidden_reason(host, _sending.private)
        if reason is not None:
            raise ForbiddenAddressError(host, reason)


def _notify_service(notice: Notice, recipient: Recipient) -> str | None:
    """Sends by apprise. Returns why the message was not accepted, or None."""
    service = _make_service(recipient)
    if service is None:
        return "not an address that messages can be sent to"
    # A webhook's program reads the details from the JSON.
    if hasattr(service, "payload_extras"):
        service.payload_extras.update(notice.details)
    kind = "failure" if notice.failure else "info"
    formats = _import_apprise().NotifyFormat
    title, body, body_format = notice.title, notice.text, formats.TEXT
    if notice.mail is not None and recipient.kind in MAIL:
        title, body, body_format = notice.mail.subject, notice.mail.html, formats.HTML
    _WARNINGS.begin()
    if service.notify(
        body=body,
        title=title,
        notify_type=_import_apprise().NotifyType(kind),
        body_format=body_format,
    ):
        return None
    return _WARNINGS.explain()


class _Warnings(logging.Handler):
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


_WARNINGS = _Warnings()


def _signing_key(address: str) -> bytes | None:
    """Returns the key of a signed webhook; None if it is not valid, or not a web address."""
    url, _, secret = address.partition(SECRET)
    try:
        key = b64decode(secret, validate=True)
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return key if len(key) >= KEY_MIN and host and url.startswith(("http://", "https://")) else None


def _post_signed(notice: Notice, address: str) -> str | None:
    """Signs by standardwebhooks.com. A message that is sent again has the same id. Returns why it
    was not accepted, or None."""
    url, key = address.partition(SECRET)[0], _signing_key(address)
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


def _make_service(recipient: Recipient) -> Any:
    """Returns apprise's object for an address; None if it cannot make one. An http(s) address that
    is not a service known to apprise is a webhook."""
    library = _import_apprise()
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
    except Exception:  # noqa: BLE001 - the text of a library's error may hold the address
        return None
    return service


def _import_apprise() -> Any:
    """Imports apprise, which takes half a second, and silences its and its HTTP clients' loggers,
    since they show addresses."""
    for name in ("apprise", "urllib3", "requests"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.setLevel(logging.WARNING if name == "apprise" else logging.CRITICAL + 1)
    logging.getLogger("apprise").handlers[:] = [_WARNINGS]
    import apprise

    return apprise
