"""Recipients of alerts, for real: a webhook's HTTP server and a mail server on loopback, which
keep what they get."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session

from tests.support.servers.ports import unused_port

TOKEN = "T0KEN-of-the-webhook"
PASSWORD = "pass-of-the-mailbox"


class Webhook:
    """POSTs in order, as (path, JSON). `statuses`, then `status`, are what they are answered with;
    with `hangs` nothing is answered."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.status = 200
        self.statuses: list[int] = []
        self.hangs = threading.Event()
        self.free = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.hangs.is_set():
                    receiver.free.wait(30)
                    return
                status = receiver.statuses.pop(0) if receiver.statuses else receiver.status
                if status == 200:
                    receiver.headers.append(dict(self.headers.items()))
                    receiver.bodies.append(body)
                    receiver.got.append((self.path, json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        """A plain address, as of any service of one's own."""
        return f"http://127.0.0.1:{self.server.server_port}/hooks/{TOKEN}"

    def close(self) -> None:
        self.free.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


class Mailbox:
    """Messages in order, as (to, subject, text). Wants a login. `html` has their other part."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, str]] = []
        self.html: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.closed = False
        self.port = unused_port()
        self.controller = Controller(
            self, hostname="127.0.0.1", port=self.port, authenticator=_login, auth_require_tls=False
        )
        self.controller.start()

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, _server: object, session: Session, envelope: Envelope
    ) -> str:
        if not session.authenticated:
            return "530 log in first"
        message = message_from_bytes(envelope.content or b"", policy=policy.default)  # type: ignore[arg-type]
        body = message.get_body(("plain", "html"))
        assert body is not None
        page = message.get_body(("html",))
        self.html.append("" if page is None else page.get_content())
        self.headers.append({name: str(value) for name, value in message.items()})
        self.got.append((", ".join(envelope.rcpt_tos), str(message["Subject"]), body.get_content()))
        return "250 OK"

    @property
    def address(self) -> str:
        return f"mailto://crawler:{PASSWORD}@127.0.0.1:{self.port}?from=crawler@shop.example&to=people@shop.example&mode=insecure"

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.controller.stop()


def _login(
    _server: object, _session: object, _envelope: object, _mechanism: str, given: Any
) -> AuthResult:
    good = isinstance(given, LoginPassword) and given.password == PASSWORD.encode()
    return AuthResult(success=good, handled=good)


@contextmanager
def receivers(folder: Path) -> Iterator[tuple[Webhook, Mailbox, Path]]:
    """Both, and the secret list that names them."""
    webhook, mailbox = Webhook(), Mailbox()
    path = folder / "alerts.txt"
    path.write_text(f"# who is told\n{webhook.address}\n{mailbox.address}\n")
    path.chmod(0o600)
    try:
        yield webhook, mailbox, path
    finally:
        webhook.close()
        mailbox.close()
