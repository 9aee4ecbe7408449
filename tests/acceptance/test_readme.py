"""What a reader of the documentation types, typed as it is written, in an empty folder:
the README, then Definitions, SQL and the cookbook.

A mark before a block says what is done with it: `run` types it into a shell, `file: NAME` writes it,
`shop` starts the sample shop, `start` runs until its dashboard answers, `install` is typed without the package's installation. The folder
gets a link to the virtual environment and nothing else; the servers are the embedded ones. Only
ports are other ones, and the sample shop is smaller. The README's commands start as they do for a
user; those of the other pages are forked (`tests.support.servers.typed`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from aiosmtpd.controller import Controller

from scraper.settings import Settings
from tests.support.servers.ports import unused_port, unused_ports
from tests.support.servers.typed import typed_commands

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^<!-- (?P<mark>.*?) -->\n^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
MARKS = {"run", "file", "shop", "install", "module", "start"}
SHOP_PORT, MAIL_PORT = "8800", "8025"
RUN_S = 300.0


def blocks(page: str) -> list[tuple[str, str, str]]:
    """(mark, what it says, text) of each marked block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [(*m["mark"].partition(": ")[::2], m["text"]) for m in BLOCK.finditer(text)]
    assert {mark for mark, _, _ in found} <= MARKS, page
    return found


QUERIES = re.findall(
    r"^```sql\n(.*?)^```$", (ROOT / "docs/how-to/exports.md").read_text(), re.M | re.S
)


class Reader:
    """A reader who types what a page says, with free ports in place of the page's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.mail_port = (str(port) for port in unused_ports(2))
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith("SCRAPER_")
        }
        self.shop: subprocess.Popen[bytes] | None = None
        # Before all other programs; empty where those are typed.
        self.programs = ""
        (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)

    def read(self, page: str) -> str:
        """Does what the page says; returns what was printed."""
        printed = []
        for mark, argument, text in blocks(page):
            match mark:
                case "install":
                    first, rest = text.split("\n", 1)
                    assert first.startswith("pip install 'celery-scraper[alerts,embedded]'")
                    printed.append(self.run(rest))
                    self.folder /= "prices"
                    (self.folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
                case "shop":
                    self.open_shop(text)
                case "file":
                    path = self.folder / argument
                    path.write_text(self.typed(text), encoding="utf-8")
                case "run":
                    printed.append(self.run(text))
                case "start":
                    printed.append(self.run_until_it_answers(text.strip()))
                case _:
                    pytest.fail(f"{page}: a block that this test cannot use: {mark}")
        return "".join(printed)

    def open_shop(self, text: str) -> None:
        self.shop = subprocess.Popen(
            [
                "bash",
                "-ec",
                f". .venv/bin/activate\nexec {self.typed(text).strip()} --products 200",
            ],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.shop.stdout is not None
        assert self.shop.stdout.readline().startswith(b"listening on ")

    def run(self, text: str) -> str:
        """Runs a shell block to its end; returns what it printed."""
        with subprocess.Popen(
            ["bash", "-ec", f". .venv/bin/activate\nPATH={self.programs}$PATH\n{self.typed(text)}"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=RUN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                printed, _ = process.communicate()
                pytest.fail(f"not done within {RUN_S:g} s:\n{printed}")
        assert process.returncode == 0, printed
        assert "Traceback" not in printed, printed
        return printed

    def run_until_it_answers(self, command: str) -> str:
        """Runs a command until everything runs, then asks the printed address and types Ctrl-C."""
        script = f"""
. .venv/bin/activate
{command} --port {unused_port()} > start.txt & pid=$!
for _ in $(seq {RUN_S:.0f}); do grep -q 'everything runs' start.txt && break; sleep 1; done
curl -s -o /dev/null -w '%{{http_code}}\\n' "$(grep -o 'http://[^ ]*/crawls' start.txt)"
kill -TERM $pid; wait $pid; cat start.txt
"""
        return self.run(script)

    def typed(self, text: str) -> str:
        """With this reader's ports. One of the three products that are tried is gone at the sample
        shop, which `scraper try` says by its exit code."""
        text = re.sub(r"^(scraper try sample) .*", r"\1 || [ $? = 1 ]", text, flags=re.M)
        return text.replace(SHOP_PORT, self.port).replace(MAIL_PORT, self.mail_port)

    def leave(self) -> None:
        if self.shop is not None:
            self.shop.terminate()
            self.shop.communicate()
        subprocess.run(
            [".venv/bin/scraper", "down"],
            cwd=self.folder,
            env=self.env,
            check=False,
            capture_output=True,
        )


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """In a folder with a short path: where it is too long for a socket's, servers listen elsewhere."""
    with tempfile.TemporaryDirectory(prefix="reader-", ignore_cleanup_errors=True) as folder:
        found = Reader(Path(folder))
        yield found
        found.leave()


@pytest.fixture(scope="module")
def readme(reader: Reader) -> tuple[str, list[str]]:
    """What the README's commands print, and the rows of the file that they write."""
    printed = reader.read("README.md")
    return printed, (reader.folder / "sample.csv").read_text(encoding="utf-8").splitlines()


class Mailbox:
    """A mail server that keeps what it gets."""

    def __init__(self, port: str) -> None:
        self.got: list[bytes] = []
        self.controller = Controller(
            self, hostname="127.0.0.1", port=int(port), auth_require_tls=False,
            authenticator=lambda *_: True, auth_exclude_mechanism=["CRAM-MD5"],
        )  # fmt: skip

    async def handle_DATA(self, _server: object, _session: object, envelope: object) -> str:  # noqa: N802
        self.got.append(envelope.content)  # type: ignore[attr-defined]
        return "250 OK"


@pytest.mark.everyday
def test_commands_of_the_readme(readme: tuple[str, list[str]]) -> None:
    printed, rows = readme
    assert "sites/sample.yaml written" in printed and "200 new" in printed
    assert "401\n" in printed, "the dashboard asks for a login"
    assert rows[0].startswith("id,url,title,price,") and len(rows) >= 201


@pytest.fixture
def other_pages(reader: Reader, tmp_path: Path) -> Iterator[None]:
    with typed_commands(tmp_path / "bin") as folder:
        reader.programs = f"{folder}:"
        yield
    reader.programs = ""


@pytest.mark.usefixtures("readme", "other_pages")
def test_commands_of_other_pages(reader: Reader) -> None:
    printed = reader.read("docs/how-to/definitions.md")
    assert "no errors" in printed and "200 new" in printed
    assert "were not asked again" in printed, "without --refetch fresh products are left alone"
    assert re.search(r"[1-9]\d* changed", printed), "the crawl with --refetch finds changes"

    prices, history, new, delisted, drops = ask(Settings(home=reader.folder / ".scraper"))
    assert len(prices) > 150 and all(row[2] > 0 and row[3] for row in prices)
    assert [row[0] for row in history] == list(range(1, len(history) + 1)) and len(history) > 1
    assert len(new) >= 200
    assert [row[0] for row in delisted] == ["1001"]
    assert drops and all(now < before for _, _, _, before, now, *_ in drops)

    mailbox = Mailbox(reader.mail_port)
    mailbox.controller.start()
    try:
        printed = reader.read("docs/how-to/cookbook.md")
    finally:
        mailbox.controller.stop()
    assert len(mailbox.got) == 2 and b"shop.csv" in mailbox.got[1]
    assert (reader.folder / "prices.dump").stat().st_size > 10_000


def ask(settings: Settings) -> list[list[tuple[object, ...]]]:
    """Each query's rows. One product is made delisted, for this transaction alone."""
    dsn = settings.postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE products SET delisted_at = now() WHERE external_id = '1001'")
        found = [connection.execute(query.encode()).fetchall() for query in QUERIES]
        connection.rollback()
    return found
