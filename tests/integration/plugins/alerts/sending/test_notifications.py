"""The page "Notifications": what it shows of recipients and rules, and how it changes their files."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.errors import ConfigError
from scraper.plugins.alerts import editing, preview, tab
from scraper.plugins.alerts.sending.notify import find_failures, make_test_notice
from scraper.plugins.alerts.sending.recipients import Recipient, load_recipients, parse_recipients
from scraper.plugins.setup import tab as setup
from scraper.settings import Settings
from tests.support.judged_crawls import priced
from tests.support.making import rows
from tests.support.servers.receivers import Mailbox, Webhook
from tests.support.shops.crawled_shop import Shop

NOBODY = 65534
RULES = "- {name: drops, when: fell 5%}\n"
LOG = "SELECT site, before, after FROM definition_changes ORDER BY id"

pytestmark = pytest.mark.usefixtures("environment")


@pytest.fixture
def folder(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with both files, which the settings name."""
    made = Path(tempfile.mkdtemp(prefix="scraper-alerts-"))
    (made / "alerts.txt").write_text("# T0KEN\nops = https://a.example/T0KEN # T0KEN\n")
    (made / "alerts.txt").chmod(0o640)
    (made / "rules.yaml").write_text(RULES)
    monkeypatch.setenv("SCRAPER_ALERTS", str(made / "alerts.txt"))
    monkeypatch.setenv("SCRAPER_ALERT_RULES", str(made / "rules.yaml"))
    settings_module.load.cache_clear()
    yield made
    shutil.rmtree(made)


def read(engine: sa.Engine, **query: str) -> dict[str, Any]:
    with engine.connect() as connection:
        return tab.read(connection, query)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://hooks.example/T0KEN", "hooks.example"),
        ("mailtos://me:PASS@mail.example?to=you@example.com", "mail.example"),
        ("https://me:PA@SS@hooks.example/", "hooks.example"),
        ("https://me:PA#SS@hooks.example/", ""),
        ("https://me:PA/SS@hooks.example/", ""),
        ("slack://T0KEN/T0KEN/T0KEN/", ""),
        ("https://[T0KEN/", ""),
    ],
)
def test_only_the_host_of_an_address_is_shown(address: str, host: str) -> None:
    assert Recipient(1, "x", address).host == host


def test_the_list_is_changed_line_by_line_and_its_log_has_no_address(
    engine: sa.Engine, folder: Path
) -> None:
    file = folder / "alerts.txt"
    before = file.read_text().rstrip("\n")
    file.write_text(before)
    tab.ACTIONS["add"](engine, {"address": "https://b.example/T0KEN", "names": "x,  y"}, "ann")
    assert file.read_text() == f"{before}\nx,  y = https://b.example/T0KEN\n"
    assert file.stat().st_mode & 0o777 == 0o640
    for address, names in (
        ("https://b.example/T0KEN", ""),
        ("https://c.example/\nhttps://d.example/", ""),
        ("https://c.example/\u2028https://d.example/", ""),
        ("ops=https://c.example/", ""),
        ("#https://c.example/", ""),
        ("foo://T0KEN", ""),
        ("https://c.example/", "ops = "),
        ("https://c.example/" + "a" * 2000, ""),
        ("", ""),
    ):
        with pytest.raises(ConfigError) as refused:
            tab.ACTIONS["add"](engine, {"address": address, "names": names}, "ann")
        assert "T0KEN" not in str(refused.value), address
    shown = read(engine)["recipients"]["list"]
    assert [(row["line"], row["host"], row["names"]) for row in shown] == [
        (2, "a.example", ["ops"]),
        (3, "b.example", ["x", "y"]),
    ]
    for wrong in ({"line": 2, "key": shown[1]["key"]}, {"line": 1, "key": ""}, {}, {"line": 2}):
        with pytest.raises(ConfigError):
            tab.ACTIONS["remove"](engine, wrong, "ann")
    tab.ACTIONS["remove"](engine, {"line": 2, "key": shown[0]["key"]}, "ann")
    assert file.read_text() == "# T0KEN\nx,  y = https://b.example/T0KEN\n"
    logged = rows(engine, LOG)
    assert len(logged) == 2 and "T0KEN" not in str(logged) and "example" not in str(logged)
    assert logged[1][1] == f"\nops = {shown[0]['key']}\nx,  y = {shown[1]['key']}\n"


@pytest.mark.parametrize(
    ("host", "always"),
    [
        *(("169.254.169.254", True), ("2852039166", True), ("0xa9fea9fe", True)),
        *(("0251.0376.0251.0376", True), ("[::ffff:169.254.169.254]", True), ("[fd00:ec2::254]", True)),
        *(("127.0.0.1", False), ("127.1", False), ("localhost", False), ("[::1]", False)),
        *(("10.1.2.3", False), ("[fe80::1]", False), ("0", False)),
    ],
)  # fmt: skip
def test_the_tab_adds_no_way_into_the_own_network(
    engine: sa.Engine, folder: Path, monkeypatch: pytest.MonkeyPatch, host: str, always: bool
) -> None:
    before = (folder / "alerts.txt").read_text()
    addresses = [f"{kind}://{host}/T0KEN" for kind in ("https", "json", "gotify")]
    addresses.append(f"mailto://me:PASS@{host}?to=you@example.com")

    def add(address: str) -> None:
        with pytest.raises(ConfigError, match="not for messages|not an address") as refused:
            tab.ACTIONS["add"](engine, {"address": address, "names": ""}, "ann")
        assert "T0KEN" not in str(refused.value) and "PASS" not in str(refused.value)

    if always:
        for address in addresses:
            add(address)
    monkeypatch.setenv("SCRAPER_SETUP_PRIVATE", "0")
    settings_module.load.cache_clear()
    for address in addresses:
        if host != "localhost" or not address.startswith("gotify"):
            add(address)
    assert (folder / "alerts.txt").read_text() == before and rows(engine, LOG) == []


def test_a_masked_change_is_not_undone(engine: sa.Engine, folder: Path) -> None:
    file = folder / "alerts.txt"
    file.write_text("https://a.example/T0KEN\n")
    only = read(engine)["recipients"]["list"][0]
    tab.ACTIONS["remove"](engine, {"line": 1, "key": only["key"]}, "ann")
    assert file.read_text() == "", "the masked text is what the file has now"
    ids = [id_ for (id_,) in rows(engine, "SELECT id FROM definition_changes")]
    with pytest.raises(ConfigError, match="cannot be undone") as refused:
        setup.undo_change(engine, {"id": ids[0]}, "eve")
    assert "T0KEN" not in str(refused.value)
    file.unlink()
    tab.ACTIONS["add"](engine, {"address": "https://b.example/T0KEN", "names": ""}, "ann")
    file.unlink()
    for (id_,) in rows(engine, "SELECT id FROM definition_changes"):
        with pytest.raises(ConfigError, match="cannot be undone"):
            setup.undo_change(engine, {"id": id_}, "eve")
    assert not file.exists() and len(rows(engine, LOG)) == 2
    seen = tab.QUESTIONS["rules"](engine, {}, "ann")["seen"]
    text = RULES.replace("5%", "6%")
    tab.ACTIONS["save"](engine, {"text": text, "seen": seen}, "ann")
    (newest,) = rows(engine, "SELECT max(id) FROM definition_changes")
    setup.undo_change(engine, {"id": newest[0]}, "ann")
    assert (folder / "rules.yaml").read_text() == RULES, "other files have no secrets"


def test_rules_are_saved_only_whole_and_over_what_was_seen(engine: sa.Engine, folder: Path) -> None:
    file = folder / "rules.yaml"
    seen = tab.QUESTIONS["rules"](engine, {}, "ann")["seen"]
    for text in ("[]", "- {name: a}\n", "x: [", "- {name: a, when: new}\n" * 2, "\ud800"):
        with pytest.raises(ConfigError):
            tab.ACTIONS["save"](engine, {"text": text, "seen": seen}, "ann")
        assert tab.QUESTIONS["check"](engine, {"text": text}, "ann")["problems"], text
    for text in ("", "# Without rules yet.\n"):
        assert not tab.QUESTIONS["check"](engine, {"text": text}, "ann")["problems"]
    problems = tab.QUESTIONS["check"](engine, {"text": f"{RULES}- {{name: b, when: no}}\n"}, "ann")
    assert [problem["line"] for problem in problems["problems"]] == [2]
    file.write_text(f"# Another's change.\n{RULES}")
    with pytest.raises(ConfigError, match="has changed"):
        tab.ACTIONS["save"](engine, {"text": RULES, "seen": seen}, "ann")
    seen = tab.QUESTIONS["rules"](engine, {}, "ann")["seen"]
    told = tab.ACTIONS["save"](engine, {"text": RULES, "seen": seen}, "ann")
    assert isinstance(told, dict) and file.read_text() == RULES
    assert rows(engine, LOG) == [("alert rules", f"# Another's change.\n{RULES}", RULES)]


def test_a_read_only_folder_gives_the_file_to_commit(engine: sa.Engine, folder: Path) -> None:
    read(engine)
    seen = tab.QUESTIONS["rules"](engine, {}, "ann")["seen"]
    for path in (folder / "alerts.txt", folder / "rules.yaml"):
        path.chmod(0o644)
    folder.chmod(0o555)
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        shown = read(engine)
        assert not shown["recipients"]["writable"] and not shown["rules"]["writable"]
        text = RULES.replace("5%", "6%")
        told = tab.ACTIONS["save"](engine, {"text": text, "seen": seen}, "ann")
        assert isinstance(told, dict) and told["text"] == text and "Commit" in told["message"]
        with pytest.raises(ConfigError, match="Add the line yourself"):
            tab.ACTIONS["add"](engine, {"address": "https://b.example/T0KEN"}, "ann")
    finally:
        os.seteuid(before)
        folder.chmod(0o755)
    assert (folder / "rules.yaml").read_text() == RULES and rows(engine, LOG) == []


def test_broken_files_are_shown_as_problems(engine: sa.Engine, folder: Path) -> None:
    (folder / "alerts.txt").write_text("mailbox T0KEN\n")
    (folder / "rules.yaml").write_text("- {name: a, when: x}\n")
    shown = read(engine)
    assert "alerts.txt:1: not an address" in shown["recipients"]["problem"]
    assert "T0KEN" not in str(shown) and ":1: rule 1: when" in shown["rules"]["problem"]
    assert read(engine, preview="1")["preview"]["rules"] == {}


def test_a_preview_of_many_changes_has_the_newest(
    engine: sa.Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(Shop(engine), "20.00", "10.00", "9.00", "8.00")
    found = read(engine, preview="1")["preview"]
    assert found["rules"]["drops"]["alerts"] == 3
    texts = [one["text"] for one in found["rules"]["drops"]["latest"]]
    assert "9.00 EUR → 8.00 EUR" in texts[0] and "20.00 EUR → 10.00 EUR" in texts[2]
    monkeypatch.setattr(preview, "CHANGES_MAX", 2)
    newest = read(engine, preview="1")["preview"]
    assert newest["rules"]["drops"]["alerts"] == 2 and newest["since"] > found["since"]
    assert rows(engine, "SELECT count(*) FROM price_alerts") == [(0,)], "a preview stores nothing"


def test_nothing_is_set(engine: sa.Engine, environment: Settings) -> None:
    shown = read(engine)
    assert shown["recipients"]["file"] is shown["rules"]["file"] is None
    for name in ("add", "save", "test", "remove"):
        with pytest.raises(ConfigError, match="is not set"):
            tab.ACTIONS[name](engine, {}, "ann")
    assert editing.has_log() and shown["sent"] == []


@pytest.mark.parametrize("signed", [False, True])
def test_a_name_that_leads_inside_later_is_not_sent_to(
    engine: sa.Engine,
    folder: Path,
    people: tuple[Webhook, Mailbox, Path],
    monkeypatch: pytest.MonkeyPatch,
    signed: bool,
) -> None:
    """The tab marks what it adds; the operator's own lines may lead inside."""
    monkeypatch.setenv("SCRAPER_SETUP_PRIVATE", "0")
    settings_module.load.cache_clear()
    webhook, _, _ = people
    file, key = folder / "alerts.txt", "#whsec_" + "a" * 32 if signed else ""
    public = f"https://shop.example/T0KEN{key}"
    tab.ACTIONS["add"](engine, {"address": public, "names": ""}, "ann")
    inside = webhook.address.replace("127.0.0.1", "localhost") + key
    text = file.read_text().replace(public, inside)
    file.write_text(text)
    marked = load_recipients(file)[-1]
    assert find_failures(make_test_notice(), [marked]).keys() == {marked} and not webhook.got
    file.write_text(text.replace("# public", ""))
    assert (
        not find_failures(make_test_notice(), load_recipients(file)[-1:]) and len(webhook.got) == 1
    )


# apprise leaves it to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_datagram_to_a_name_that_leads_inside_is_not_sent(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syslog:
        syslog.bind(("127.0.0.1", 0))
        syslog.setblocking(False)
        line = f"rsyslog://localhost:{syslog.getsockname()[1]}"
        (marked,) = parse_recipients(f"{line}  # public", tmp_path)
        assert find_failures(make_test_notice(), [marked]).keys() == {marked}
        with pytest.raises(BlockingIOError):
            syslog.recv(10_000)
        (own,) = parse_recipients(line, tmp_path)
        assert not find_failures(make_test_notice(), [own])
        assert b"a test" in syslog.recv(10_000)
