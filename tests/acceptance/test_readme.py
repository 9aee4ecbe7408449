"""README's "Your own shop in five minutes" and its SQL, typed as they stand there, in an empty
folder.

The folder gets a link to the virtual environment and nothing else; the servers are the embedded
ones that the README itself starts. Only the sample shop's port is another one, and its catalogue
smaller.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from scraper.settings import Settings

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PORT = "8800"
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>.*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
RUN_S = 150.0


def section(heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert found is not None, f"README has no section {heading!r}"
    return found[1]


def blocks(heading: str) -> list[tuple[str, str, str]]:
    """(mark, language, text) of each code block of a section; the mark is the HTML comment right
    before it."""
    return [(m["mark"] or "", m["language"], m["text"]) for m in BLOCK.finditer(section(heading))]


FIVE_MINUTES = blocks("Your own shop in five minutes")
QUERIES = [text for _, language, text in blocks("Ask with SQL") if language == "sql"]


class Reader:
    """Somebody who types what the README says: a folder, and a free port in place of the README's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self.settings = Settings(home=folder / ".scraper")
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith("SCRAPER_")
        }
        self.shop: subprocess.Popen[bytes] | None = None
        (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
        (folder / "sites").mkdir()

    def open_shop(self, text: str) -> None:
        *before, command = self.typed(text).strip().splitlines()
        script = "\n".join([*before, f"exec {command} --products 200"])
        self.shop = subprocess.Popen(
            ["bash", "-ec", script],
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
            ["bash", "-ec", self.typed(text)],
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
                process.terminate()
                printed, _ = process.communicate()
                pytest.fail(f"not done within {RUN_S:g} s:\n{printed}")
        assert process.returncode == 0, printed
        assert "Traceback" not in printed, printed
        return printed

    def typed(self, text: str) -> str:
        return text.replace(PORT, self.port)

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


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    found.leave()


@pytest.mark.everyday
def test_the_five_minutes_and_the_queries(reader: Reader) -> None:
    printed = []
    for mark, language, text in FIVE_MINUTES:
        match mark.partition(": ")[0], language:
            case "shop", "sh":
                reader.open_shop(text)
            case "definition", "yaml":
                (reader.folder / mark.partition(": ")[2]).write_text(
                    reader.typed(text), encoding="utf-8"
                )
            case "run", "sh":
                # the second block is typed in the shell of the first
                if printed:
                    text = ". .venv/bin/activate\n" + text
                printed.append(reader.run(text))
            case _:
                pytest.fail(
                    f"a block that this test does not know how to use: {mark!r}, {language}"
                )
    first, second = printed
    assert "no errors" in first and "200 new" in first
    assert "younger" in section("Your own shop in five minutes")
    assert "were not asked again" in second, (
        "the crawl without --refetch leaves fresh products alone"
    )
    assert re.search(r"[1-9]\d* changed", second), "the one with --refetch finds changes"
    assert (
        (reader.folder / "export-sample.csv")
        .read_text(encoding="utf-8")
        .startswith("id,url,name,price,")
    )

    reader.run(". .venv/bin/activate\nscraper up")
    answers = ask(reader.settings)
    today, history, new, delisted, drops = answers
    assert len(today) > 150 and all(row[2] > 0 and row[3] for row in today)
    assert [row[0] for row in history] == list(range(1, len(history) + 1)) and len(history) > 1
    assert len(new) >= 200
    assert [row[0] for row in delisted] == ["1001"]
    assert drops and all(now < before for _, _, before, now, _ in drops)


def ask(settings: Settings) -> list[list[tuple[object, ...]]]:
    """Each query's rows. One product is made delisted, for this transaction alone."""
    dsn = settings.postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE products SET delisted_at = now() WHERE external_id = '1001'")
        found = [connection.execute(query.encode()).fetchall() for query in QUERIES]
        connection.rollback()
    return found
