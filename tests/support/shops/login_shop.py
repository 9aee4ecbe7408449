"""A shop that shows prices to those who are logged in: by a form with a token against forgery, or by a
bearer token.

Logged-out pages answer 200 with the login form (`style` "page"), or redirect to it ("redirect"). A
session ends after `lasts` pages (0: never), whatever it is: then it is one expiry, and the shop
counts it. A page meets one expiry at most, and does not count when it comes back: which pages would
meet two depends on how fast the machine is. `logins` and `refused` are what it saw. `ScriptedShop`
draws its prices by script, which asks for them with the session's cookie, and sets a cookie of its
own. A second port is a foreign host: `foreign` holds the heads of all requests that it got.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.servers.threaded import Threaded
from tests.support.shops.odd_shop import Answer, listing, product

# in every account of the tests: nowhere to be found afterwards
PASSWORD = "pa55-w0rd-never-to-be-seen"
# every session's value begins so: nowhere in clear either
SESSION = "s3ss10n-"
TOKEN = "t0k3n-"
JSON = "application/json"


@dataclass
class Session:
    user: str
    served: int = 0
    over: bool = False
    peers: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)


class LoginShop(Threaded):
    def __init__(
        self,
        products: int = 40,
        *,
        lasts: int = 0,
        style: str = "page",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self._tls = tls
        self.products, self.lasts, self.style = products, lasts, style
        self.users = {"ann@shop.example": PASSWORD, "bob@shop.example": PASSWORD + "-b"}
        self.logins: list[tuple[float, str]] = []
        self.refused: list[tuple[float, str]] = []
        # the login page answers 503
        self.broken = False
        # the login page never answers
        self.hangs = False
        # forms without the right hidden token
        self.forged = 0
        self.expired = 0
        self.logged_out = 0  # answers
        self.sessions: dict[str, Session] = {}
        # the session that ended for a page
        self.ended_for: dict[str, Session] = {}
        # pages that look logged out to everybody
        self.always_out: set[str] = set()
        # pages that redirect to the foreign host
        self.elsewhere: set[str] = set()
        # where the form's answer redirects, with 307
        self.login_goes_to: str | None = None
        self.foreign: list[bytes] = []
        self.asked: list[str] = []
        self.peers: list[str] = []
        self._tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def foreign_url(self) -> str:
        return f"http://localhost:{self.foreign_port}"

    def definition(self, login: str = "", more: str = "", every: str = "0") -> str:
        way = login or (
            f"  form: {{url: '{self.url}/login', fields: {{email: '{{username}}', pass: '{{password}}'}}}}\n"
            "  success: {css: a.logout}\n  logged_out: {css: 'form#login'}\n"
        )
        return (
            f"start: {self.url}/\nallow_private: true\nrate: unlimited\nconcurrency: 8\nrevisit: 0\n{more}"
            f"login:\n  every: {every}\n{way}"
            "listing: {products: a.p}\n"
            "product:\n  id: {css: 'body::attr(data-id)'}\n"
            "  fields: {title: {css: h1, required: true}, price: {css: .price, type: price}}\n"
        )

    def accounts(self, *users: str) -> str:
        lines = [
            f"  - {{username: {user}, password: {self.users.get(user, PASSWORD)}}}"
            for user in users
        ]
        return (
            "shop:\n"
            + "\n".join(lines or [f"  - {{username: ann@shop.example, password: {PASSWORD}}}"])
            + "\n"
        )

    @staticmethod
    def session_of(user: str) -> Session:
        return Session(user)

    # Answers.

    def _form(self, said: str = "") -> Answer:
        token = secrets.token_hex(8)
        self._tokens.add(token)
        body = (
            f"<html><body>{said}<form id=login action='/login' method=post><input type=hidden name=csrf value={token}>"
            "<input name=email><input type=password name=pass><select name=lang><option value=en selected>en</select>"
            "<input type=checkbox name=stay value=1 checked><button name=go value=1>in</button></form></body></html>"
        )
        return Answer(body.encode(), headers=("Set-Cookie: anonymous=1; Path=/",))

    def _session(self, headers: dict[str, str], peer: str, path: str) -> Session | None:
        cookies = dict(pair.partition("=")[::2] for pair in headers.get("cookie", "").split("; "))
        key = cookies.get("sid") or headers.get("authorization", "").removeprefix("Bearer ")
        session = self.sessions.get(key)
        if session is None:
            return None
        # No session ends with a page that an earlier one ended with.
        counts = self.ended_for.get(path, session) is session
        if counts and self.lasts and session.served >= self.lasts and not session.over:
            session.over = True
            self.expired += 1
        if session.over:
            self.ended_for[path] = session
            return None
        session.served += counts
        session.peers.add(peer)
        session.agents.add(headers.get("user-agent", ""))
        return session

    def expire_all(self) -> None:
        self.ended_for.clear()
        for session in self.sessions.values():
            if not session.over:
                session.over = True
                self.expired += 1

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes, peer: str
    ) -> Answer:
        path = urlsplit(target).path
        if path == "/robots.txt":
            return Answer(b"User-agent: *\nDisallow: /login\n", kind="text/plain")
        if path == "/login":
            return self._login(method, headers, body)
        if path == "/api/token":
            return self._token(body)
        api = path.startswith("/api/")
        session = self._session(headers, peer, path)
        if session is None or path in self.always_out:
            self.logged_out += 1
            if api or self.style == "401":
                return Answer(b'{"error": "who are you?"}', 401, JSON)
            if self.style == "redirect":
                return Answer(status=302, headers=(f"Location: /login?next={path}",))
            return self._form("<h1>Welcome</h1>")
        if path in self.elsewhere:
            return Answer(status=302, headers=(f"Location: {self.foreign_url}/steal",))
        cookie = () if api else (f"Set-Cookie: seen={session.served}; Path=/",)
        if path in ("/", "/api/list"):
            start = "/api/p" if api else "/p"
            links = [f"{start}/{n}" for n in range(self.products)]
            return Answer(
                listing(links, more="<a class=logout href=/logout>out</a>"), headers=cookie
            )
        number = path.rsplit("/", 1)[1]
        page = product(
            number,
            f"Product {number}",
            f"{number}.50 €",
            more="<a class=logout href=/logout>out</a>",
        )
        return Answer(page.encode(), headers=cookie)

    def _login(self, method: str, headers: dict[str, str], body: bytes) -> Answer:
        if self.broken:
            return Answer(b"down", 503)
        if method == "GET":
            return self._form()
        if self.login_goes_to is not None:
            return Answer(status=307, headers=(f"Location: {self.login_goes_to}",))
        given = dict(parse_qsl(body.decode(), keep_blank_values=True))
        if (
            given.get("csrf") not in self._tokens
            or given.get("lang") != "en"
            or given.get("stay") != "1"
            or "go" in given
        ):
            self.forged += 1
            return Answer(b"forged", 403)
        self._tokens.discard(given["csrf"])
        user = given.get("email", "")
        if self.users.get(user) != given.get("pass"):
            self.refused.append((time.monotonic(), user))
            return self._form("<p>Wrong password</p>")
        self.logins.append((time.monotonic(), user))
        key = SESSION + secrets.token_hex(16)
        self.sessions[key] = Session(user)
        return Answer(
            status=303,
            headers=(
                "Location: /welcome/0",
                f"Set-Cookie: sid={key}; Path=/; HttpOnly; Max-Age=3600",
            ),
        )

    def _token(self, body: bytes) -> Answer:
        given = json.loads(body)
        user = given.get("user", "")
        if self.users.get(user) != given.get("pass"):
            self.refused.append((time.monotonic(), user))
            return Answer(b'{"error": "no"}', 401, JSON)
        self.logins.append((time.monotonic(), user))
        key = TOKEN + secrets.token_hex(16)
        self.sessions[key] = Session(user)
        return Answer(json.dumps({"data": {"token": key, "expires_in": 3600}}).encode(), kind=JSON)

    # The rest is sockets.

    async def _listen(self) -> list[asyncio.Server]:
        shop = await asyncio.start_server(self._tracked(self._shop), "127.0.0.1", 0, ssl=self._tls)
        foreign = await asyncio.start_server(self._tracked(self._elsewhere), "127.0.0.1", 0)
        self.port, self.foreign_port = (one.sockets[0].getsockname()[1] for one in (shop, foreign))
        return [shop, foreign]

    async def _shop(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str(writer.get_extra_info("peername")[0])
        while True:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            body = await reader.readexactly(int(headers.get("content-length") or 0))
            path = target if target.startswith("/") else urlsplit(target).path
            self.asked.append(f"{method} {path}")
            self.peers.append(peer)
            while self.hangs and path == "/login":
                await asyncio.sleep(0.02)
            writer.write(self._answer(method, path, headers, body, peer).raw())
            await writer.drain()

    async def _elsewhere(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self.foreign.append(head)
            writer.write(Answer(b"<h1>got you</h1>").raw())
            await writer.drain()


PRICE = """<p class="price"></p><script>
document.cookie = 'drawn=1; path=/';
fetch('/api/price/%s').then(async got => {
  if (got.ok) document.querySelector('.price').textContent = (await got.json()).price;
  else document.body.innerHTML = '<form id="login"></form>';
});</script>"""


class ScriptedShop(LoginShop):
    """`cookies`: the names of those that came with each page shown."""

    def __init__(self, products: int = 40, **options: Any) -> None:
        super().__init__(products, **options)
        self.cookies: list[set[str]] = []

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes, peer: str
    ) -> Answer:
        answer = super()._answer(method, target, headers, body, peer)
        path, _, number = urlsplit(target).path.rpartition("/")
        if answer.status != 200 or b"id=login" in answer.body:
            return answer
        if path == "/api/price":
            return Answer(json.dumps({"price": f"{number}.50 €"}).encode(), kind=JSON)
        if path == "/p":
            self.cookies.append(
                {pair.partition("=")[0] for pair in headers.get("cookie", "").split("; ")}
            )
            page = product(
                number,
                f"Product {number}",
                None,
                more=PRICE % number + "<a class=logout href=/logout>out</a>",
            )
            return Answer(page.encode(), headers=answer.headers)
        return answer
