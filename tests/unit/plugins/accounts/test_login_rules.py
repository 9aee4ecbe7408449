"""What a login is made of: definitions, the secrets file, sealing, an account's cookies."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scraper.cli.main import main
from scraper.errors import ConfigError, DefinitionError
from scraper.http.account_session import AccountSession
from scraper.http.cookies import AccountJar
from scraper.plugins.accounts.file import Account, AccountFile, read_accounts
from scraper.plugins.accounts.login.attempt import (
    LoginAttempts,
    confine_to_group,
    make_account_session,
)
from scraper.plugins.accounts.login.form import LoginTrouble
from scraper.plugins.accounts.login_keys import at_path, header_of, render, signs_of
from scraper.plugins.accounts.sealing import make_seal
from scraper.proxies.proxy_list import parse_list
from scraper.rules.proxies import Proxy, choose_for_account
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

SITE = """
start: https://shop.example/
listing: {products: a}
product: {fields: {title: h1}}
"""
FORM = 'form: {url: https://shop.example/login, fields: {email: "{username}"}}'
PAGE = b"<html><head><title>Tea</title></head><body><h1>Tea</h1><p class=price>3</p></body></html>"


def site(login: str, more: str = "") -> Site:
    return loader.load_text(f"{SITE}{more}login: {{{login}}}\n", "shop.yaml")


def problem(login: str, more: str = "") -> str:
    with pytest.raises(DefinitionError) as error:
        site(login, more)
    return "\n".join(error.value.problems)


# --- definitions
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "told"),
    [
        ("", "login: says nothing of how (fix: give one of form, token, function)"),
        (
            f"{FORM}, token: {{}}",
            "login.token: in addition to form (fix: keep one of form, token, function)",
        ),
        (
            'form: {url: https://other.example/l, fields: {a: "{b}"}}',
            "login.form.url: other.example is not a host of",
        ),
        (
            "token: {url: https://other.example/l, body: {a: '{b}'}}",
            "login.token.url: other.example is not a host of the site (fix: add",
        ),
        (
            "token: {header: nope}",
            "login.token.header: 'nope' is not a header (fix: name: value, as in",
        ),
        (
            "token: {body: {a: b}}",
            "login.token: where is the token asked for? (fix: give `url`, or remove body",
        ),
        (f"{FORM}, hosts: other.example", "login.hosts: other.example is not a host of the site"),
        (f"{FORM}, every: soon", "login.every: 'soon' is not a length of time"),
        (f"{FORM}, logged_out: [{{}}]", "login.logged_out.0: is empty"),
        (f"{FORM}, logged_out: [{{css: 'a['}}]", "bad CSS selector"),
        (f"{FORM}, logged_out: [{{status: 200}}]", "200 alone also matches good pages"),
        (f"{FORM}, success: [{{status: 302}}]", "302 alone"),
        (f"{FORM}, suces: [x]", "login.suces: unknown key (fix: did you mean `success`?)"),
        ("form: {url: https://shop.example/login, fields: {a: b}}", "has no { } of an account"),
        ("token: {url: https://shop.example/login, body: {a: b}}", "has no { } of an account"),
        ("token: {header: 'X: abc'}", "has no { } of an account"),
    ],
)
def test_what_is_wrong_with_a_login_is_reported_with_its_key(login: str, told: str) -> None:
    assert told in problem(login)


def test_listings_and_products_go_by_one_proxy() -> None:
    text = SITE.replace("listing: {products: a}", "listing: {products: a, proxy: datacenter}")
    with pytest.raises(DefinitionError, match="an account has one proxy for all its pages"):
        loader.load_text(f"{text}login: {{{FORM}}}\n", "shop.yaml")
    assert site(FORM, "proxy: residential\n").login is not None


def test_a_definition_with_a_login_survives_its_snapshot() -> None:
    one = site(
        f"{FORM}, success: {{cookie: sid}}, logged_out: [Please log in, {{css: form}}], every: 5"
    )
    again = Site.model_validate(json.loads(json.dumps(one.model_dump(mode="json"))))
    assert (
        again == one
        and again.content_hash == one.content_hash
        and one.login is not None
        and one.login.every_s == 5
    )


@pytest.mark.parametrize(
    ("sign", "status", "body", "url", "found"),
    [
        ("Please log in", 200, b"<p>Please log in</p>", "https://shop.example/p", True),
        ("Please log in", 200, PAGE, "https://shop.example/p", False),
        ("{css: 'form#login'}", 200, b"<form id=login>", "https://shop.example/p", True),
        ("{css: 'form#login'}", 200, PAGE, "https://shop.example/p", False),
        ("{css: 'form#login'}", 200, b"", "https://shop.example/p", False),
        ("{css: h1, status: 403}", 200, PAGE, "https://shop.example/p", False),
        ("{css: h1, regex: T.a}", 200, PAGE, "https://shop.example/p", True),
        ("{css: h2, regex: T.a}", 200, PAGE, "https://shop.example/p", False),
        ("{url: /signin}", 200, PAGE, "https://shop.example/signin?x=1", True),
        ("Please log in", 401, PAGE, "https://shop.example/p", True),
        ("Please log in", 200, PAGE, "https://shop.example/login/?next=/p", True),
        ("Please log in", 200, PAGE, "https://shop.example/login-tips", False),
    ],
)
def test_a_logged_out_page_is_known_by_its_signs(
    sign: str, status: int, body: bytes, url: str, found: bool
) -> None:
    login = site(f"{FORM}, logged_out: [{sign}]").login
    assert login is not None
    assert (
        signs_of(login).logged_out(status, {"content-type": "text/html"}, body, url) is not None
    ) is found


def test_a_redirect_to_the_login_is_known_before_it_is_followed() -> None:
    login = site(f"{FORM}, logged_out: [{{url: /signin}}, {{css: form, url: /p/}}]").login
    assert login is not None
    signs = signs_of(login)
    assert signs.leads_out("https://shop.example/login?next=%2Fp") and signs.leads_out(
        "https://shop.example/signin"
    )
    assert signs.leads_out("https://shop.example/p/1") is None


def test_templates_take_the_accounts_values_and_nothing_else() -> None:
    assert render("{username}:{pin}", {"username": "a{pin}", "pin": "1"}) == "a{pin}:1"
    assert header_of("X-Key: k {token}", {"token": "t"}) == ("X-Key", "k t")
    with pytest.raises(KeyError):
        render("{nope}", {})
    with pytest.raises(ValueError, match="one line"):
        header_of("X-Key: {token}", {"token": "a\r\nHost: b"})


@pytest.mark.parametrize(
    ("path", "found"),
    [("a.b", 1), ("a.c.1", 3), ("a.c.9", None), ("a.b.c", None), ("x", None), ("a.c.x", None)],
)
def test_a_path_leads_into_json(path: str, found: object) -> None:
    assert at_path({"a": {"b": 1, "c": [2, 3]}}, path) == found


# --- the secrets file
# ------------------------------------------------------------------------------------------------


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "accounts.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_accounts_are_read_by_site(tmp_path: Path) -> None:
    groups = read_accounts(
        written(
            tmp_path,
            "shop:\n  - {username: ann, password: \"0123\"}\n  - {name: b, token: x-y}\napi: {token: abc, pin: 'no'}\n",
        )
    )
    assert [one.name for one in groups["shop"]] == ["1", "b"] and groups["shop"][
        0
    ].password == "0123"
    assert groups["api"][0].values == {"token": "abc", "pin": "no"}
    assert "0123" not in repr(groups) and "ann" not in repr(groups)
    assert groups["shop"][0].hidden("0123 and ann") == "*** and ann"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "shop:\n  - {username: s3cret, password: 1234}\n",
            ":2: `password` must be a text (fix: quote it)",
        ),
        ("shop:\n  - s3cret\n", ":2: must be a mapping"),
        ("shop: s3cret\n", ":1: must be a list of 1 to"),
        ("shop: []\n", ":1: must be a list of 1 to"),
        ("- s3cret\n", "must be a mapping of site names"),
        ("shop: {name: a}\n", ":1: has nothing to log in with"),
        (
            "shop:\n  - {name: a, token: s3cret}\n  - {name: a, token: s3cret}\n",
            ":3: its name is taken",
        ),
        ("shop: {name: 'a s3cret', token: b}\n", "`name` must be made of letters"),
        ("shop: {token: ''}\n", "`token` is empty"),
        ('shop: {token: "s3cret\\n"}\n', "has a character that none may have"),
        ("shop: {s3cret: [\n", "not valid YAML (SCRAPER_ACCOUNTS)"),
        ("shop: {token: s3cret\n  token: b}\n", "not valid YAML"),
        ("shop: {token: s3cret, token: b}\n", ":1: not readable, or written twice"),
        ("sh/op: {token: s3cret}\n", ":1: not the name of a site"),
    ],
)
def test_what_is_wrong_with_the_file_is_reported_by_its_line_and_shows_nothing(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read_accounts(written(tmp_path, text))
    assert told in str(error.value) and "s3cret" not in str(error.value)


def test_a_file_that_becomes_wrong_keeps_the_last_one_in_use(tmp_path: Path) -> None:
    path = written(tmp_path, "shop: {token: one}\n")
    file = AccountFile(path)
    file.refresh()
    path.write_text("shop: {token: [\n")
    file.refresh()
    assert file.groups["shop"][0].token == "one" and file.version == 1
    path.write_text("shop: {token: second}\n")
    file.refresh()
    assert file.groups["shop"][0].token == "second" and file.version == 2
    path.unlink()
    file.refresh()
    assert file.groups["shop"][0].token == "second"


# --- sealing
# ---------------------------------------------------------------------------------------------------------


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    sealed = make_seal(settings).seal(b"text")
    path = tmp_path / "home" / "secret-key"
    assert (
        stat.S_IMODE(path.stat().st_mode) == 0o600 and make_seal(settings).open(sealed) == b"text"
    )
    assert [one.name for one in path.parent.iterdir()] == ["secret-key"]
    assert path.read_text().strip() not in repr(make_seal(settings))


def test_keys_are_changed_one_after_the_other() -> None:
    old, new, other = ("o" * 32, "n" * 32, "x" * 32)
    sealed = make_seal(Settings(secret_key=old)).seal(b"text")
    both = make_seal(Settings(secret_key=f"{new}, {old}"))
    assert (
        both.open(sealed) == b"text"
        and make_seal(Settings(secret_key=new)).open(both.seal(b"a")) == b"a"
    )
    assert make_seal(Settings(secret_key=other)).open(sealed) is None
    (mark,) = make_seal(Settings(secret_key=old)).marks(b"password")
    assert mark in both.marks(b"password") and mark not in both.marks(b"another")
    assert (
        mark.split(":")[1]
        != make_seal(Settings(secret_key=other)).marks(b"password")[0].split(":")[1]
    )


@pytest.mark.parametrize("key", ["short", ",", "k" * 31, f"{'k' * 32},short"])
def test_a_key_that_is_none_is_reported_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_seal(Settings(secret_key=key))
    assert (
        "SCRAPER_SECRET_KEY" in str(error.value)
        and key not in str(error.value).split(":", 1)[1].split("(fix")[0]
    )


def jar(*lines: bytes, secure_only: bool = False) -> AccountJar:
    made = AccountJar(secure_only=secure_only, now=lambda: 1000.0)
    for line in lines:
        made.store_set_cookie("shop.example", "/", line)
    return made


def test_cookies_are_written_down_and_read_again() -> None:
    one = jar(b"sid=1; Path=/; Secure", b"lang=de; Domain=shop.example; Max-Age=50")
    assert one.changed and one.cookie_names() == {"sid", "lang"}
    two = jar()
    two.load(json.loads(json.dumps(one.dump())))
    assert not two.changed
    for secure in (True, False):
        assert two.cookie_header("shop.example", "/", secure=secure) == one.cookie_header(
            "shop.example", "/", secure=secure
        )


def test_what_changed_here_goes_over_what_others_wrote() -> None:
    mine, theirs = jar(b"a=1", b"b=1", b"c=1"), jar(b"a=2", b"b=2", b"c=2", b"d=2")
    mine.mark_saved()
    mine.store_set_cookie("shop.example", "/", b"a=3")
    mine.store_set_cookie("shop.example", "/", b"b=; Max-Age=0")
    mine.store_set_cookie("shop.example", "/", b"c=1")
    mine.load(theirs.dump())
    sent = mine.cookie_header("shop.example", "/", secure=False)
    assert sorted(sent.split("; ")) == ["a=3", "c=2", "d=2"]
    assert mine.changed


def test_a_cookie_that_stays_as_it_is_is_not_a_change() -> None:
    one = jar(b"a=1; Path=/")
    one.mark_saved()
    one.store_set_cookie("shop.example", "/p", b"a=1; Path=/")
    assert not one.changed


@given(
    st.sampled_from(["http", "https"]),
    st.sampled_from(["shop.example", "api.shop.example", "other.example"]),
)
def test_nothing_of_a_login_by_https_goes_without(scheme: str, host: str) -> None:
    made = jar(b"sid=1; Path=/", secure_only=True)
    one = AccountSession(
        "shop", "1", 1, made, {"Authorization": "Bearer x"}, frozenset({"shop.example"})
    )
    url = f"{scheme}://{host}/p"
    mine = scheme == "https" and host == "shop.example"
    assert bool(one.headers_for(url)) is mine and bool(one.cookies_for(url)) is mine
    assert "Bearer" not in repr(one) and one.jar.browser_cookies()[0]["secure"] is True


def test_an_account_has_one_proxy_while_it_is_there() -> None:
    proxies: list[Proxy] = parse_list(
        "".join(f"http://u:p@10.0.0.{n}:80 class=datacenter\n" for n in range(1, 51)), "list"
    )
    first = choose_for_account("shop/1", proxies)
    assert first is not None and choose_for_account("shop/1", list(reversed(proxies))) == first
    rest = [one for one in proxies if one is not first]
    assert (
        choose_for_account("shop/1", rest) not in (None, first)
        and choose_for_account("shop/1", []) is None
    )
    assert len({choose_for_account(f"shop/{n}", proxies) for n in range(40)}) > 15


SHARED = """
other: [{username: ann, password: secret-of-ann}]
shared: {hosts: [shop.example], accounts: [{username: bob, password: secret-of-bob}]}
elsewhere: {hosts: [not-it.example, shop.example:8443], accounts: {token: secret-token}}
"""


def groups_of(tmp_path: Path, text: str = SHARED) -> dict[str, list[Account]]:
    path = tmp_path / "accounts.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return read_accounts(path)


@pytest.mark.parametrize(("group", "reason"), [("other", "alone"), ("elsewhere", "may not go to")])
def test_the_account_of_another_site_is_not_sent(tmp_path: Path, group: str, reason: str) -> None:
    account = groups_of(tmp_path)[group][0]
    definition = site(f"{FORM}, accounts: {group}")
    assert definition.login is not None
    context: Any = SimpleNamespace(site=definition, login=signs_of(definition.login))
    nothing: Any = None  # Not even a client is made.
    with pytest.raises(LoginTrouble, match=reason) as trouble:
        asyncio.run(LoginAttempts(nothing, nothing, nothing, ()).make(context, account))
    assert "secret" not in str(trouble.value)


def test_a_group_with_hosts_goes_to_them_and_what_is_below_them_alone(tmp_path: Path) -> None:
    account = groups_of(tmp_path)["shared"][0]
    allowed = confine_to_group(None, account)
    assert allowed("shop.example")
    assert allowed("login.shop.example")
    assert not allowed("shop.example.evil.example")
    assert not allowed("notshop.example")
    assert not confine_to_group(lambda host: False, account)("shop.example")
    assert account.misdirected("any", "shared", "shop.example") is None
    assert account.misdirected("shared", "shared", "evil.example") is not None


def test_a_login_that_was_kept_gives_no_header_to_a_site_that_its_group_left(
    tmp_path: Path,
) -> None:
    account = groups_of(tmp_path)["other"][0]
    definition = site('token: {header: "X: {username}"}, accounts: other')
    assert definition.login is not None
    context: Any = SimpleNamespace(site=definition, login=signs_of(definition.login))
    assert make_account_session(context, account).hosts == frozenset()


def test_a_token_goes_to_hosts_of_its_group_alone(tmp_path: Path) -> None:
    account = groups_of(tmp_path)["shared"][0]
    text = 'token: {header: "X: {username}"}, accounts: shared, hosts: [cdn.example]'
    definition = site(text, "hosts: [cdn.example]\n")
    assert definition.login is not None
    context: Any = SimpleNamespace(site=definition, login=signs_of(definition.login))
    assert make_account_session(context, account).hosts == {"shop.example"}


@pytest.mark.parametrize(
    "group",
    [
        "{accounts: [{token: abc}]}",
        "{hosts: [], accounts: [{token: abc}]}",
        "{hosts: shop.example, accounts: [{token: abc}]}",
        '{hosts: ["https://shop.example/"], accounts: [{token: abc}]}',
        "{hosts: [3], accounts: [{token: abc}]}",
        "{hosts: [shop.example], accounts: [{token: abc}], host: x}",
        "{hosts: [shop.example], username: bob, password: x}",
    ],
)
def test_a_group_whose_hosts_are_wrong_is_refused(tmp_path: Path, group: str) -> None:
    with pytest.raises(ConfigError, match="a list of `hosts`"):
        groups_of(tmp_path, f"shared: {group}\n")


def test_sites_check_names_a_definition_that_asks_for_the_account_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups_of(tmp_path)
    definition = tmp_path / "shop.yaml"
    definition.write_text(f"{SITE}login: {{{FORM}, accounts: other}}\n")
    monkeypatch.setenv("SCRAPER_ACCOUNTS", str(tmp_path / "accounts.yaml"))
    outcome = CliRunner().invoke(main, ["sites", "check", str(definition)])
    assert outcome.exit_code != 0
    assert "belong to the site of that name alone" in str(outcome.exception) + outcome.output
    definition.write_text(f"{SITE}login: {{{FORM}, accounts: shared}}\n")
    assert CliRunner().invoke(main, ["sites", "check", str(definition)]).exit_code == 0
