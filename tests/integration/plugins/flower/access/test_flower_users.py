"""Users of Flower as `scraper users` makes them: each role on every route of Flower, and on the
Crawls tab's."""

from __future__ import annotations

import json
import subprocess

import httpx
import pytest
import sqlalchemy as sa
from flower import urls
from tornado.web import create_signed_value

from scraper.plugins.flower.access.users import users_file
from scraper.plugins.flower.actions import ACTIONS, OF_SITES
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.support.machine import everyday
from tests.support.making import a_site, open_crawl, rows
from tests.support.servers.flower import PLAIN, Flower
from tests.support.servers.forked import BIN

pytestmark = pytest.mark.slow

PASSWORD = "correct horse"
GETS = ["/", "/crawls", "/crawls/1", "/api/crawls", "/api/crawls/1", "/api/sites/shop", "/workers"]
CONTROL = [
    path.replace("(.+)", "x")
    for path, *_ in (handler for handler in urls.handlers if isinstance(handler, tuple))
    if "/worker/" in path or "/task/" in path
]


def type_users(run: Commands, *words: str, password: str | None = None) -> str:
    """`scraper users …` with a password from a pipe."""
    done = subprocess.run(
        [BIN / "scraper", "users", *words],
        input=password and f"{password}\n",
        capture_output=True,
        text=True,
        env=run.environ(),
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def do(
    flower: Flower, auth: tuple[str, str] | str, path: str, body: object = None
) -> httpx.Response:
    """Posts as a browser does, or with a token as a script does."""
    if isinstance(auth, str):
        headers = {"Authorization": f"Bearer {auth}"}
        return httpx.post(
            f"{flower.url}{path}", json=body or {}, headers=headers, timeout=180, verify=PLAIN
        )
    with httpx.Client(auth=auth, timeout=180, verify=PLAIN) as client:
        client.get(f"{flower.url}/crawls")
        headers = {"X-XSRFToken": client.cookies["_xsrf"]}
        return client.post(f"{flower.url}{path}", json=body or {}, headers=headers)


@pytest.mark.parametrize("prefix", everyday(["", "/ops/flower"], "/ops/flower"))
def test_each_role_on_every_route(
    run: Commands, environment: Settings, engine: sa.Engine, prefix: str
) -> None:
    open_crawl(engine, a_site())
    for role in ("read", "operate", "edit"):
        type_users(run, "add", role, "--role", role, password=PASSWORD)
    token = type_users(run, "add", "script", "--role", "operate", "--token").strip()
    stored = users_file(environment.home_dir).read_text()
    assert token not in stored and PASSWORD not in stored
    assert json.loads(type_users(run, "list", "--json"))[0] == {
        "name": "edit",
        "role": "edit",
        "login": "password",
    }
    flower = Flower(run, environment, *[f"--url_prefix={prefix}"][: bool(prefix)], prefix=prefix)
    reader, operator, editor = ((name, PASSWORD) for name in ("read", "operate", "edit"))
    for auth in (reader, operator, editor, flower.login):
        for path in GETS:
            answer = flower.get(path, auth=auth, follow_redirects=True)
            assert answer.status_code == 200, (auth, path)
        may_edit = auth in (editor, flower.login)
        for path in ("/crawls/setup", "/crawls/api/setup"):
            assert flower.get(path, auth=auth).status_code == (200 if may_edit else 403), path
        assert ("/crawls/setup" in flower.get("/crawls", auth=auth).text) == may_edit
        shown = flower.get("/crawls/1", auth=auth).text
        assert ('data-read-only="yes"' in shown) == (auth == reader)

    operated = [f"/api/crawls/1/{name}" for name in ACTIONS]
    operated += [f"/api/sites/shop/{name}" for name in OF_SITES]
    edited = ["/crawls/api/setup/save", "/crawls/api/setup/check", "/crawls/api/setup/accept"]
    assert len(CONTROL) > 12
    for path in (*operated, *edited, *CONTROL, "/api/worker/shutdown/x/api/crawls/1/stop"):
        answer = do(flower, reader, path)
        assert answer.status_code == 403 and "has the role read" in answer.json()["error"], path
    for path in (*edited, *CONTROL, "/api/worker/shutdown/x/api/crawls/1/stop"):
        for sender in (operator, token):
            answer = do(flower, sender, path)
            assert answer.status_code == 403 and "this needs edit" in answer.json()["error"], path
    assert rows(engine, "SELECT paused, finished_at FROM sites, crawls") == [(False, None)]

    assert do(flower, editor, "/crawls/api/setup/check", {"name": "a"}).status_code == 200
    assert do(flower, editor, "/api/worker/shutdown/x").status_code == 404
    assert do(flower, operator, "/api/sites/shop/pause").status_code == 200
    assert do(flower, token, "/api/sites/shop/resume").status_code == 200
    assert do(flower, operator, "/api/crawls/1/stop").status_code == 200
    assert rows(engine, "SELECT note FROM crawls") == [("stopped by operate in Flower",)]
    logged = [json.loads(line) for line in flower.log().splitlines() if "done in Flower" in line]
    assert [line["by"] for line in logged] == ["operate", "script", "operate"]

    # A password in a browser asks for the token of the page, and a link from elsewhere lacks it.
    path = f"{flower.url}/api/sites/shop/pause"
    assert httpx.post(path, auth=operator, timeout=180).status_code == 403
    changed = type_users(run, "passwd", "operate", "--json", password="another horse")
    assert json.loads(changed) == {"name": "operate", "changed": True}
    removed = json.loads(type_users(run, "remove", "script", "--json"))
    assert removed == {"name": "script", "removed": True}
    for wrong in (operator, ("nobody", PASSWORD), ("script", token)):
        assert flower.get("/api/crawls", auth=wrong).status_code == 401
    for path in ("/crawls", "/api/crawls", "/workers", "/api/workers", "/metrics"):
        headers = {"Authorization": f"Bearer {token}"}
        assert flower.get(path, auth=None, headers=headers).status_code == 401, path
    assert do(flower, token, "/api/sites/shop/pause").status_code == 401
    assert flower.get("/api/crawls", auth=("operate", "another horse")).status_code == 200
    assert PASSWORD not in flower.log() and token not in flower.log()


def test_a_command_refuses_what_makes_no_user(run: Commands, environment: Settings) -> None:
    type_users(run, "add", "anna", "--role", "read", password=PASSWORD)
    for words, text in (
        (("add", "anna", "--role", "edit", "--token"), "is a user already"),
        (("add", "a:b", "--role", "edit", "--token"), "is not a name"),
        (("add", "admin", "--role", "read", "--token"), "SCRAPER_FLOWER_USER"),
        (("add", "bob", "--role", "all", "--token"), "all"),
        (("remove", "bob"), "no user is named"),
        (("passwd", "bob"), "no user is named"),
    ):
        refused = run.scraper("users", *words, code=None)
        assert refused.returncode in (1, 2) and text in refused.stderr, words
    assert list(json.loads(users_file(environment.home_dir).read_text())) == ["anna"]


def test_an_address_of_oauth_has_the_role_of_the_file(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    open_crawl(engine, a_site())
    type_users(run, "add", "Ed@example.com", "--role", "edit", "--oauth")
    type_users(run, "add", "op@example.com", "--role", "operate", password=PASSWORD)
    assert [row["login"] for row in json.loads(type_users(run, "list", "--json"))] == [
        "oauth",
        "password",
    ]
    added = json.loads(type_users(run, "add", "script", "--role", "read", "--token", "--json"))
    token = added["token"]
    assert added == {"name": "script", "role": "read", "token": token}
    flower = Flower(
        run,
        environment,
        "--auth=.*@example.com",
        "--auth_provider=flower.views.auth.GithubLoginHandler",
        "--oauth2_key=k",
        "--oauth2_secret=s",
        "--oauth2_redirect_uri=http://127.0.0.1/login",
        f"--cookie_secret={PASSWORD}",
    )

    def status(address: str, path: str, secret: str = PASSWORD, **headers: str) -> int:
        cookie = create_signed_value(secret, "user", address).decode()
        with httpx.Client(timeout=60, cookies={"user": cookie}, verify=PLAIN) as client:
            client.get(f"{flower.url}/api/crawls")
            headers = {"X-XSRFToken": client.cookies.get("_xsrf", ""), **headers}
            return client.post(f"{flower.url}{path}", json={}, headers=headers).status_code

    edit, operate = "/crawls/api/setup/save", "/api/sites/shop/pause"
    allowed = (200, 409)
    assert status("ed@EXAMPLE.com", edit) == 401, "Flower's own options are exact"
    assert status("ed@example.com", edit) in allowed
    assert status("op@example.com", operate) in allowed
    assert status("op@example.com", edit) == 403
    # An address that Flower admits and the file does not name may read.
    assert status("new@example.com", operate) == 403
    # No other header gives a session more than its role, or frees it from the token.
    for value in ("Bearer x", "Basic eA==", "x", f"Bearer {token}"):
        assert status("op@example.com", edit, Authorization=value) == 403
        assert status("ed@example.com", edit, Authorization=value, **{"X-XSRFToken": ""}) == 403
    for address, secret in (("ed@example.com", "wrong"), ("ed@evil.example", PASSWORD)):
        assert status(address, operate, secret) in (401, 403)
    assert rows(engine, "SELECT paused FROM sites") == [(True,)]
    users_file(environment.home_dir).write_text("[]")
    assert status("ed@example.com", operate) == 403, "a broken file gives no rights"
