"""Sends an account's credentials, and reads the response. Does without Redis, locks and retries.

Every request goes the way of pages: the guard, the limits, the host's permit (`before`), the
account's proxy. It goes only to the site's hosts, never from https down to http, and a redirect
never sends posted data to another host. Errors show only an account's name and a response's
status.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.domain import Blame, Outcome, ProxySignal
from scraper.errors import FetchError
from scraper.http.account_session import AccountSession
from scraper.http.fetcher import BeforeHop, HttpFetcher, PostBody
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.plugins.accounts.login_keys import (
    Form,
    Login,
    Signs,
    Token,
    at_path,
    header_of,
    render,
    render_all,
)
from scraper.plugins.accounts.policy import Trouble
from scraper.rules.blocks import detect_block
from scraper.rules.urls import host_of
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.scalars import check_header
from scraper.sites.page import Page

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
REFUSALS = frozenset({400, 401, 403, 422})
MESSAGE_MAX = 200
_LOGIN_FORM = 'form:has(input[type="password" i])'
_FIELDS_MAX = 500
_NOT_SENT = frozenset({"submit", "button", "image", "reset", "file"})

LoginFunction = Callable[["LoginClient", Any], Awaitable[Any]]


class LoginTrouble(Exception):
    """The account is not logged in. The message holds none of its values. `signal` judges the
    proxy."""

    def __init__(self, kind: Trouble, message: str, signal: ProxySignal | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.signal = signal


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of a login in addition to the cookies in the jar: `headers` for each request, and
    how long it lasts, if known. `saw` says what showed that it worked."""

    headers: Mapping[str, str] = field(repr=False)
    lasts_s: float | None
    saw: str


@dataclass(eq=False, slots=True)
class LoginClient:
    """The HTTP client of a login. `get` and `post` return a `Page`; the client keeps cookies and
    follows redirects."""

    _fetcher: HttpFetcher = field(repr=False)
    _policy: FetchPolicy = field(repr=False)
    _identity: AccountSession = field(repr=False)
    _before: BeforeHop = field(repr=False)
    _route: ProxyRoute | None = field(repr=False)

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Page:
        return await self._ask(url, headers, None)

    async def post(
        self,
        url: str,
        *,
        data: Mapping[str, str] | list[tuple[str, str]] | None = None,
        json_: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Page:
        """Sends `data` as a form, or `json_` as JSON."""
        if json_ is not None:
            return await self._ask(url, headers, PostBody(json.dumps(json_).encode(), JSON))
        return await self._ask(url, headers, PostBody(urlencode(data or {}).encode(), FORM))

    def cookie(self, host: str, name: str, value: str) -> None:
        """Sets a cookie that no response set."""
        self._identity.jar.add_cookie(host, name, value)

    async def _ask(
        self, url: str, headers: Mapping[str, str] | None, body: PostBody | None
    ) -> Page:
        host = host_of(url)
        if self._policy.allowed is not None and not self._policy.allowed(host):
            raise _misfit(
                f"it leads to {host}, which is not a host of the site, or not of the "
                "account's group (fix: `hosts:` in the definition, or in the file of accounts)",
            )
        if self._identity.jar.secure_only and not url.startswith("https:"):
            raise _misfit(f"it leads from https to http, at {host}")
        await self._before(url)
        fetched = await self._fetcher.fetch(
            url,
            self._policy,
            before_hop=self._before_hop,
            extra_headers=headers,
            route=self._route,
            visitor=self._identity,
            body=body,
        )
        return Page(
            fetched.url, fetched.body, status=fetched.status, headers=fetched.headers, page_url=url
        )

    async def _before_hop(self, url: str) -> None:
        if self._identity.jar.secure_only and not url.startswith("https:"):
            raise FetchError(
                Outcome.OFF_SITE, f"redirects from https to http, at {host_of(url)}", url=url
            )
        await self._before(url)


async def log_in(
    signs: Signs,
    values: Mapping[str, str],
    account: Any,
    client: LoginClient,
    identity: AccountSession,
    function: Any = None,
) -> Grant:
    """Logs the account in, and puts its cookies into the identity's jar. Raises `LoginTrouble`, and
    what `before` raises. `function` is the site's, and receives `account`."""
    login = signs.login
    try:
        if login.form is not None:
            return await _log_in_by_form(login, login.form, signs, values, client, identity)
        if login.token is not None:
            return await _log_in_by_token(login, login.token, values, client, identity)
        return await _log_in_by_function(login, function, account, client, identity)
    except FetchError as error:
        raise _as_trouble(error) from None
    except KeyError as error:
        raise _misfit(
            f"the account has no {error} (fix: add it to the secrets file, or change the "
            "definition)",
        ) from None


def _misfit(message: str) -> LoginTrouble:
    return LoginTrouble(Trouble.MISFIT, message)


def _rejected(message: str) -> LoginTrouble:
    return LoginTrouble(Trouble.REJECTED, message)


def _as_trouble(error: FetchError) -> LoginTrouble:
    ours = error.blame in (Blame.PAGE, Blame.PARSER) and error.outcome is not Outcome.MALFORMED
    return LoginTrouble(
        Trouble.MISFIT if ours else Trouble.UNAVAILABLE, f"{error.outcome}: {error}", error.signal
    )


async def _log_in_by_form(
    login: Login,
    form: Form,
    signs: Signs,
    values: Mapping[str, str],
    client: LoginClient,
    identity: AccountSession,
) -> Grant:
    filled = {name: render(template, values) for name, template in form.fields.items()}
    page = await client.get(form.url)
    _check_answer(page, "the login page")
    element = _find_form(page, form.selector)
    if element is None:
        what = f"no {form.selector}" if form.selector else "no form with a password field"
        raise _misfit(f"the login page has {what} (status {page.status}; fix: form.selector)")
    if (element.attributes.get("method") or "get").lower() != "post":
        raise _misfit("its form would send the password in an address (method is not post)")
    sent = [(name, value) for name, value in _read_fields(element) if name not in filled]
    action = page.follow(element.attributes.get("action") or page.url)
    parts = urlsplit(page.url)
    headers = {"Referer": page.url, "Origin": f"{parts.scheme}://{parts.netloc}"}
    answer = await client.post(action, data=[*sent, *filled.items()], headers=headers)
    _check_answer(answer, "the answer to the form")
    if answer.status in REFUSALS:
        raise _rejected(f"the answer to the form was {answer.status}")
    if login.success:
        return Grant({}, login.expires_s, _find_success(login, answer, identity))
    if _find_form(answer, form.selector) is not None:
        raise _rejected("the answer shows the form again")
    sign = signs.logged_out(answer.status, answer.headers, answer.body, answer.url)
    if sign is not None:
        raise _rejected(f"the answer looks logged out ({sign})")
    return Grant({}, login.expires_s, f"status {answer.status}, and the form is no longer there")


async def _log_in_by_token(
    login: Login,
    token: Token,
    values: Mapping[str, str],
    client: LoginClient,
    identity: AccountSession,
) -> Grant:
    if token.url is None:
        name, value = _header(token.header, values)
        return Grant({name: value}, login.expires_s, "the token of the secrets file")
    body = render_all(token.body, values)
    answer = await client.post(
        token.url,
        json_=body if token.send == "json" else None,
        data={key: str(value) for key, value in body.items()} if token.send == "form" else None,
        headers={"Accept": JSON},
    )
    _check_answer(answer, "the answer")
    if answer.status in REFUSALS:
        raise _rejected(f"the answer was {answer.status}")
    if answer.status >= 300:
        raise _misfit(f"the answer was {answer.status}")
    try:
        document = answer.json()
    except ValueError:
        raise _misfit("the answer is not JSON") from None
    token_value = at_path(document, token.path)
    if not isinstance(token_value, str | int) or token_value == "" or isinstance(token_value, bool):
        raise _rejected(f"the answer has no token at {token.path}")
    saw = _find_success(login, answer, identity) if login.success else f"a token at {token.path}"
    name, value = _header(token.header, {**values, "token": str(token_value)})
    lasts = at_path(document, token.expires_path) if token.expires_path else None
    try:
        lasts_s = float(lasts) if lasts is not None else login.expires_s
    except (TypeError, ValueError):
        raise _misfit(f"the value at {token.expires_path} is not a number of seconds") from None
    return Grant({name: value}, lasts_s, saw)


async def _log_in_by_function(
    login: Login, function: Any, account: Any, client: LoginClient, identity: AccountSession
) -> Grant:
    """Calls the site's function. It returns nothing, or a mapping with cookies (name -> value, for
    the login's first host), headers, and `expires` (seconds). `PermissionError` means that the
    account was rejected."""
    try:
        answer = await function(client, account)
    except (LoginTrouble, FetchError):
        raise
    except PermissionError as error:
        raise _rejected(f"{login.function}: {account.hidden(str(error))[:MESSAGE_MAX]}") from None
    except Exception as error:
        # The permit did not come in time, which is not the function's fault.
        if hasattr(error, "delay_s"):
            raise
        text = account.hidden(str(error))[:MESSAGE_MAX]
        raise _misfit(f"{login.function} raised {type(error).__name__}: {text}") from None
    answer = {} if answer is None else answer
    try:
        headers = {
            str(name): str(value) for name, value in dict(answer.get("headers") or {}).items()
        }
        for name, value in headers.items():
            check_header(name, value)
        for name, value in dict(answer.get("cookies") or {}).items():
            for host in identity.hosts:
                identity.jar.add_cookie(host.partition(":")[0], str(name), str(value))
        lasts_s = None if answer.get("expires") is None else float(answer["expires"])
    except (AttributeError, TypeError, ValueError):
        raise _misfit(
            f"{login.function} returned something else than cookies, headers and expires",
        ) from None
    if not headers and not identity.jar.cookie_names():
        raise _misfit(f"{login.function} brought neither cookies nor headers")
    return Grant(
        headers, login.expires_s if lasts_s is None else lasts_s, "what its function returned"
    )


def _check_answer(page: Page, what: str) -> None:
    """Raises for a fault, a block, or a request to slow down."""
    block = detect_block(page.status, page.headers, page.body, url=page.url)
    if block is not None and block.by != "status":
        raise LoginTrouble(Trouble.UNAVAILABLE, f"{what}: {block}")
    if page.status >= 500 or page.status in (408, 425, 429):
        raise LoginTrouble(Trouble.UNAVAILABLE, f"{what} was {page.status}")
    if page.status in (404, 410):
        raise _misfit(f"{what} was {page.status}")


def _find_success(login: Login, answer: Page, identity: AccountSession) -> str:
    """Returns the sign of `success` that the answer shows. Raises LoginTrouble(REJECTED)."""
    for success in login.success:
        if success.cookie is not None and success.cookie not in identity.jar.cookie_names():
            continue
        if success.answer is not None:
            try:
                if at_path(answer.json(), success.answer) in (None, False, ""):
                    continue
            except ValueError:
                continue
        if success.marker().matches(answer.status, answer.headers, answer.body, answer.url):
            return success.described
    raise _rejected(
        f"nothing of `success` is in the answer (status {answer.status}), so it counts as a "
        "refusal",
    )


def _header(template: str, values: Mapping[str, str]) -> tuple[str, str]:
    try:
        return header_of(template, values)
    except ValueError:
        # The text of the error may hold a value.
        raise _misfit("the token has a character that no header may have") from None


def _find_form(page: Page, selector: str | None) -> LexborNode | None:
    if not page.body.strip():
        return None
    return parse_css(selector or _LOGIN_FORM).select_first(LexborHTMLParser(page.text))


def _read_fields(form: LexborNode) -> list[tuple[str, str]]:
    """Returns the fields that a browser would send, without the buttons."""
    sent: list[tuple[str, str]] = []
    for element in form.css("input, select, textarea"):
        attributes = element.attributes
        name = attributes.get("name")
        if not name or "disabled" in attributes or len(sent) >= _FIELDS_MAX:
            continue
        kind = (attributes.get("type") or "text").lower()
        if element.tag == "textarea":
            sent.append((name, element.text()))
        elif element.tag == "select":
            option = element.css_first("option[selected]") or element.css_first("option")
            if option is not None:
                sent.append((name, option.attributes.get("value") or option.text().strip()))
        elif kind in ("checkbox", "radio"):
            if "checked" in attributes:
                sent.append((name, attributes.get("value") or "on"))
        elif kind not in _NOT_SENT:
            sent.append((name, attributes.get("value") or ""))
    return sent
