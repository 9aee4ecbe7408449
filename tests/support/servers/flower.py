"""A real Flower process, as `celery -A scraper flower` starts it, and its login."""

from __future__ import annotations

import ssl
import subprocess
import time
from typing import Any

import httpx

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.servers.ports import unused_port

BUSY_S = 60
# Flower is asked without TLS: a client of httpx would load all certificates of the machine first.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Flower:
    """One on a port of its own; may be restarted there. Requests are made with the login unless
    they say otherwise."""

    def __init__(self, run: Commands, settings: Settings, *options: str, prefix: str = "") -> None:
        self.run, self.settings, self.options = run, settings, options
        self.port, self.prefix = unused_port(), prefix
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    @property
    def login(self) -> tuple[str, str]:
        return "admin", (self.settings.home_dir / "flower-password").read_text().strip()

    def start(self) -> None:
        words = ["celery", "-A", "scraper", "flower", f"--port={self.port}", *self.options]
        self.process = process = self.run.start(*words)

        def answers() -> bool:
            assert process.poll() is None, self.log()
            try:
                return (
                    httpx.get(f"{self.url}/healthcheck", timeout=2, verify=PLAIN).status_code == 200
                )
            except httpx.HTTPError:
                return False

        until(answers, 60)

    def stop(self) -> None:
        assert self.process is not None
        self.run.end(self.process)

    def log(self) -> str:
        assert self.process is not None
        return self.run.log(self.process)

    def get(self, path: str, **more: Any) -> httpx.Response:
        more = {"auth": self.login, "timeout": 30, "verify": PLAIN, **more}
        return httpx.get(f"{self.url}{path}", **more)

    def json(self, path: str) -> Any:
        """Asks again while PostgreSQL is busy, as the tab does."""
        deadline = time.monotonic() + BUSY_S
        while (answer := self.get(path)).status_code == 503 and time.monotonic() < deadline:
            time.sleep(int(answer.headers["Retry-After"]))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(
        self, path: str, body: object = None, *, token: bool = True, **headers: str
    ) -> httpx.Response:
        """As a browser that has loaded a page would: with the cookie and the token. `token` False:
        the cookie alone."""
        with httpx.Client(auth=self.login, timeout=180, verify=PLAIN) as client:
            client.get(f"{self.url}/crawls")
            if token:
                headers["X-XSRFToken"] = client.cookies["_xsrf"]
            return client.post(
                f"{self.url}{path}", json=body if body is not None else {}, headers=headers
            )
