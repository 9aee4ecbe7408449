"""Chromium's own sandbox, which it has where the worker is not root: made for every page, and
missed in plain words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import playwright
import pytest

from scraper.plugins.browser.chromium import no_sandbox
from tests.support.machine import need
from tests.support.nobody import NOBODY
from tests.support.shops.js_shop import JsShop

ROOT = Path(__file__).parents[4]


@pytest.fixture
def shop(installed_chromium: str) -> Iterator[JsShop]:
    if not sys.platform.startswith("linux"):
        pytest.skip("Chromium's sandbox is another one here")
    with JsShop(products=1) as found:
        found.open()
        yield found


def shown(url: str, *options: str) -> tuple[dict[str, Any], str]:
    """What the command says of a page, and the whole of what it printed."""
    with tempfile.TemporaryDirectory(prefix="scraper-nobody-") as home:  # pytest's own are private
        Path(home).chmod(0o777)
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.nobody", url, *options],
            cwd=ROOT,
            env={**os.environ, "HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout


def need_a_checkout_for_everybody() -> None:
    """Playwright's driver is started as nobody, who cannot read what lies in a private folder."""
    private = [
        str(folder)
        for folder in Path(playwright.__file__).parents
        if not folder.stat().st_mode & 0o001
    ]
    if private and os.geteuid() == 0:
        reason = (
            f"nobody can enter {private[0]}, where the checkout is (fix: one that lies elsewhere)"
        )
        need(None, reason)


def test_without_root_every_page_is_in_a_sandbox(shop: JsShop) -> None:
    need_a_checkout_for_everybody()
    told, _ = shown(shop.url("/p/1"))
    if "error" in told:
        assert "its sandbox needs user namespaces" in told["error"] and "fix:" in told["error"]
        return
    assert "Thing nº 1" in told["body"]
    renderers = [each for each in told["processes"] if each["kind"] == "renderer"]
    assert renderers
    for each in renderers:
        assert each["filtered"] and each["no_new_privileges"] and each["capabilities"] == 0, each
        assert each["users"] != told["users"] and each["pids"] > 1, (
            "namespaces of its own, of users and of processes"
        )
    for each in told["processes"]:
        assert each["uid"] == (NOBODY if os.geteuid() == 0 else os.geteuid())
        assert (
            "--no-sandbox" not in each["command"]
            and "--disable-setuid-sandbox" not in each["command"]
        )


def test_without_user_namespaces_it_is_said_who_forbids_them_and_how_to_fix_it(
    shop: JsShop,
) -> None:
    if subprocess.run(["unshare", "--user", "true"], check=False).returncode:
        pytest.skip(
            "this kernel gives no user namespace to anybody: the other test has seen the error"
        )
    told, printed = shown(shop.url("/p/1"), "--no-namespaces")
    assert told["error"].endswith(
        f"chromium does not start: its sandbox needs user namespaces, which user {NOBODY} does not get on this machine: "
        "/proc/sys/user/max_user_namespaces is 0 (fix: `sysctl -w user.max_user_namespaces=10000`)"
    )
    (later,) = (
        line for line in printed.splitlines() if "no browser starts; pages go back untried" in line
    )
    assert "its sandbox needs user namespaces" in later and "fix:" in later
    assert shop.requests == [], "no page without a sandbox"


@pytest.mark.parametrize(("name", "value", "fix"), [
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "7", "deploy/seccomp/chromium.json"),
])  # fmt: skip
def test_each_way_of_forbidding_them_has_its_fix(
    tmp_path: Path, name: str, value: str, fix: str
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(value + "\n")
    assert fix in no_sandbox(tmp_path) and f"user {os.geteuid()} " in no_sandbox(tmp_path)
