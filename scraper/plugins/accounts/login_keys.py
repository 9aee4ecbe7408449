"""The schema of `login:` in a definition, and how to recognize a logged-out page. Pure.

    login:
      form:
        url: https://shop.example/login
        fields: {email: "{username}", password: "{password}"}
      success: {css: "a.logout"}
      logged_out: "Please log in to see prices"

Placeholders in { } are values of the account in the secrets file (`SCRAPER_ACCOUNTS`): a definition
holds no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scraper.domain import Kind
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator
from selectolax.lexbor import LexborHTMLParser

from scraper.rules.blocks import Marker
from scraper.rules.decoding import decode_page
from scraper.rules.urls import belongs_to, host_of
from scraper.sites.blocked_keys import MARKERS_MAX, Blocked
from scraper.sites.grammar import scalars
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.model import (
    STRINGS,
    Css,
    Duration,
    Function,
    Model,
    Problems,
    Text,
    expand_texts,
    refuse,
)

EVERY = "10s"
FIELDS_MAX = 50
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_HEADER = re.compile(r"([A-Za-z0-9-]{1,100}): *(\S.*)")

Template = Annotated[Text, Field(max_length=2000)]
LoginUrl = Annotated[str, AfterValidator(scalars.check_start_url)]
JsonPath = Annotated[str, Field(pattern=r"^[\w-]+(\.[\w-]+)*$", max_length=200)]


class LoginSign(Blocked):
    """A sign in a response: the conditions of `blocked:`, and a CSS selector that matches the
    parsed page."""

    css: Css | None = Field(None, description="an element of the page")

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.css is None and not self._others:
            return super()._check_not_empty()  # type: ignore[operator, no-any-return]
        return self

    @property
    def _others(self) -> bool:
        return False

    @property
    def described(self) -> str:
        given = [super().described] if super().described else []
        return " and ".join([*given, *([f"css {self.css[:80]!r}"] if self.css is not None else [])])

    def marker(self) -> Marker:
        marker = super().marker()
        if self.css is None:
            return marker
        ask = partial(_selects, self.css)
        page = marker.page
        both = ask if page is None else (lambda body, kind: page(body, kind) and ask(body, kind))
        return Marker(
            marker.described, marker.statuses, marker.headers, marker.texts, both, marker.url
        )


class Success(LoginSign):
    """A sign of a successful login."""

    cookie: str | None = Field(
        None, min_length=1, max_length=200, description="the name of a cookie that the login sets"
    )
    answer: JsonPath | None = Field(
        None, description="a path that exists in the JSON response: user.id"
    )

    @property
    def _others(self) -> bool:
        return self.cookie is not None or self.answer is not None

    @property
    def described(self) -> str:
        given = [super().described] if super().described else []
        given += [f"cookie {self.cookie}"] if self.cookie else []
        return " and ".join(given + ([f"answer {self.answer}"] if self.answer else []))


LoggedOut = Annotated[
    tuple[LoginSign, ...],
    BeforeValidator(
        expand_texts("text"), json_schema_input_type=str | LoginSign | list[str | LoginSign]
    ),
    Field(max_length=MARKERS_MAX),
]
Successes = Annotated[
    tuple[Success, ...],
    BeforeValidator(
        expand_texts("text"), json_schema_input_type=str | Success | list[str | Success]
    ),
    Field(max_length=MARKERS_MAX),
]


def _check_header(text: str) -> str:
    match = _HEADER.fullmatch(text)
    if match is None:
        raise ValueError(
            f'{text!r} is not a header (fix: name: value, as in "Authorization: Bearer {{token}}")'
        )
    scalars.check_header_value("header", match[2])
    return text


Header = Annotated[str, Field(max_length=1000), AfterValidator(_check_header)]


class Form(Model):
    """A form to fill in and send, with the page's hidden fields."""

    url: LoginUrl = Field(description="the page with the form")
    selector: Css | None = Field(
        None, description="the form; default: the first one with a password field"
    )
    fields: dict[Annotated[str, Field(min_length=1, max_length=200)], Template] = Field(
        min_length=1,
        max_length=FIELDS_MAX,
        description='the values: {email: "{username}", pass: "{password}"}',
    )


class Token(Model):
    """A token that is sent as a header: requested at `url`, or the account's own."""

    url: LoginUrl | None = Field(
        None, description="where to request it; default: it is in the secrets file"
    )
    body: dict[str, Any] = Field(
        default_factory=dict,
        max_length=FIELDS_MAX,
        description='what to send: {user: "{username}", pass: "{password}"}',
    )
    send: Literal["json", "form"] = Field("json", description="the format of the request")
    path: JsonPath = Field(
        "token", description="the token's path in the JSON response: data.access_token"
    )
    header: Header = Field(
        "Authorization: Bearer {token}", description="the header of each request"
    )
    expires_path: JsonPath | None = Field(
        None, description="the path of the token's lifetime in seconds in the response"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.url is None and (self.body or self.expires_path):
            refuse(
                "url",
                "where is the token asked for? (fix: give `url`, or remove body and expires_path)",
            )
        return self


class Login(Model):
    """How accounts log in, and how a logged-out page looks."""

    form: Form | None = Field(None, description="a form to fill in and send")
    token: Token | None = Field(None, description="a token to send as a header")
    function: Function | None = Field(
        None, description="`module:function`, async, instead of form and token"
    )
    success: Successes = Field((), description="the signs of a successful login: any of them")
    logged_out: LoggedOut = Field(
        (), description="the signs of a logged-out page: any of them; a 401 always is one"
    )
    accounts: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=63)] | None = Field(
        None, description="the group in the secrets file; default: the site's name"
    )
    hosts: Annotated[tuple[Annotated[str, AfterValidator(scalars.check_host)], ...], STRINGS] = (
        Field(
            (),
            description="more hosts that get the login's headers; cookies follow their own rules",
        )
    )
    every: Duration = Field(
        EVERY, description="an account logs in at most once in this time, for the whole fleet"
    )
    expires: Duration | None = Field(
        None, description="renew a login after this time; default: when it has expired"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ways = [name for name in ("form", "token", "function") if getattr(self, name) is not None]
        if not ways:
            refuse("", "says nothing of how (fix: give one of form, token, function)")
        if self._templates and not any(
            _PLACEHOLDER.search(template) for template in self._templates
        ):
            by_token = "token.body" if self.token and self.token.url else "token.header"
            refuse(
                "form.fields" if self.form else by_token,
                "has no { } of an account, such as {username}: secrets do not belong in a "
                "definition",
            )
        if len(ways) > 1:
            refuse(ways[1], f"in addition to {ways[0]} (fix: keep one of form, token, function)")
        return self

    @property
    def _templates(self) -> list[str]:
        if self.form is not None:
            return list(self.form.fields.values())
        if self.token is None:
            return []
        return [str(self.token.body)] if self.token.url is not None else [self.token.header]

    @property
    def every_s(self) -> float:
        return scalars.parse_duration(self.every)

    @property
    def expires_s(self) -> float | None:
        return None if self.expires is None else scalars.parse_duration(self.expires)

    @property
    def url(self) -> str | None:
        """The URL of the login, if the definition has one."""
        if self.form is not None:
            return self.form.url
        return self.token.url if self.token is not None else None


def check_login(login: Login, hosts: frozenset[str], pools: set[str], problems: Problems) -> None:
    """Adds contradictions to the rest of a site."""
    if login.url is not None and not belongs_to(host_of(login.url), hosts):
        key = "login.form.url" if login.form is not None else "login.token.url"
        problems.add(
            key, f"{host_of(login.url)} is not a host of the site (fix: add it to `hosts:`)"
        )
    for host in login.hosts:
        if not belongs_to(host, hosts):
            problems.add(
                "login.hosts", f"{host} is not a host of the site (fix: add it to `hosts:`)"
            )
    if len(pools) > 1:
        problems.add(
            "login",
            "an account has one proxy for all its pages (fix: give listings and products the same)",
        )


@dataclass(frozen=True)
class Signs:
    """A login's logged-out signs, compiled once a crawl."""

    login: Login
    markers: tuple[Marker, ...]

    def logged_out(
        self, status: int, headers: Mapping[str, str], body: bytes, url: str
    ) -> str | None:
        """Returns what shows that the page is logged out, or None."""
        if status == 401:
            return "status 401"
        for marker in self.markers:
            if marker.matches(status, headers, body, url):
                return marker.described
        return None

    def leads_out(self, url: str) -> str | None:
        """Returns what shows that a redirect leads to the login page."""
        return next(
            (
                marker.described
                for marker in self._by_url
                if marker.url is not None and marker.url(url)
            ),
            None,
        )

    @cached_property
    def _by_url(self) -> list[Marker]:
        return [
            m
            for m in self.markers
            if not (m.statuses or m.headers or m.texts or m.page is not None)
        ]


def signs_of(login: Login) -> Signs:
    own = [sign.marker() for sign in login.logged_out]
    if login.form is not None:
        own.append(Marker("the login page itself", url=partial(_same_page, login.form.url)))
    return Signs(login, tuple(own))


def render(template: str, values: Mapping[str, str]) -> str:
    """Fills in the account's values. Raises `KeyError` with the name of a missing one.

    >>> render("Bearer {token}", {"token": "abc"})
    'Bearer abc'
    """
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


def render_all(value: Any, values: Mapping[str, str]) -> Any:
    """Renders every text in a JSON value."""
    match value:
        case str():
            return render(value, values)
        case dict():
            return {key: render_all(item, values) for key, item in value.items()}
        case list():
            return [render_all(item, values) for item in value]
        case _:
            return value


def at_path(data: Any, path: str) -> Any:
    """Returns the value at a path such as `a.0.b` of a JSON value, or None."""
    for step in path.split("."):
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and step.isdigit() and int(step) < len(data):
            data = data[int(step)]
        else:
            return None
    return data


def header_of(template: str, values: Mapping[str, str]) -> tuple[str, str]:
    """Returns (name, value). Raises `KeyError` as `render` does, and `ValueError` for an invalid
    value."""
    name, _, value = template.partition(":")
    rendered = render(value.strip(), values)
    scalars.check_header_value(name, rendered)
    return name.strip(), rendered


def _same_page(login_url: str, url: str) -> bool:
    mine, other = urlsplit(login_url), urlsplit(url)
    same = (mine.hostname, mine.path.rstrip("/")) == (other.hostname, other.path.rstrip("/"))
    return same and (not mine.query or mine.query == other.query)


def _selects(css: str, body: bytes, content_type: str) -> bool:
    if not body.strip():
        return False
    page = LexborHTMLParser(decode_page(body, content_type or None).utf8)
    return parse_css(css).select_first(page) is not None


class AccountsKeys(DefinitionKeys):
    reading_keys: ClassVar[frozenset[str]] = frozenset({"login"})
    places: ClassVar[Mapping[str, type[BaseModel]]] = {
        "login": Login,
        "login.form": Form,
        "login.token": Token,
        "login.success": Success,
        "login.logged_out": LoginSign,
    }
    login: Login | None = Field(None, description="how accounts log in, for pages that need it")

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        login = site.of(cls).login
        if login is not None:
            pools: set[str] = {site.proxy_of(kind).pool for kind in Kind}
            check_login(login, site.allowed_hosts, pools, problems)


def login_of(site: Site) -> Login:
    """The site's `login:`, which it has."""
    login = site.of(AccountsKeys).login
    assert login is not None
    return login


def login_url(site: Site) -> str:
    """The URL of the login form: the one that `login:` names, else the site's start."""
    return login_of(site).url or site.starts[0]


def account_group(site: Site) -> str:
    """The group of the secrets file whose accounts log in."""
    return login_of(site).accounts or site.name
