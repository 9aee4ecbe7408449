"""`scraper new` for a list of addresses, and the keys that its options write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from scraper.plugins.author.commands.shop_list import parse_list
from scraper.sites.loader import load_file
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.slow

RATE = ("--rate", "1000/s")
NAMES = ("first", "second", "third")


def run(*words: str, code: int = 0, typed: str = "") -> Result:
    result = CliRunner().invoke(main, ["new", *words], input=typed)
    assert result.exit_code == code, result.output
    return result


def write_list(shop: StaticShop, other: StaticShop) -> str:
    return (
        "\ufeff# my shops\n\n"
        f"{shop.url}/all first  # the best\n"
        "not-an-address\n"
        f"{other.url}/nothing\n"
        f"{shop.url}/all\n"
        f"{other.url}/all second\n"
    )


def test_every_good_line_gets_a_definition_and_every_bad_line_is_named(project: Path) -> None:
    pages = TEMPLATES["workshop"]().pages
    with StaticShop(pages) as shop, StaticShop(pages) as other:
        Path("addresses.txt").write_text(write_list(shop, other), "utf-8")
        options = ("--schedule", "0 6 * * *", "--queue", "residential", "--tags", "garden,new")
        result = run("-f", "addresses.txt", *RATE, *options, code=1)
    for name in ("first", "second"):
        site = load_file(project / "sites" / f"{name}.yaml")
        assert (site.schedule, site.queue, site.tags) == (
            *("0 6 * * *", "residential"),
            ("garden", "new"),
        )
        assert site.rate == "1000/s"
    assert len(list(project.glob("sites/*.yaml"))) == 2
    assert (
        "addresses.txt:4: not-an-address: 'not-an-address' is not an address (fix: "
        in result.stderr
    )
    assert f"addresses.txt:5: {other.url}/nothing: " in result.stderr and "404" in result.stderr
    assert "the same address as in line 3" in result.stderr
    assert "3 of 5 lines of addresses.txt" in result.stderr
    head, first, *_ = result.stdout.splitlines()
    assert head.split("\t") == ["site", "file", "products read", "missing"]
    assert first.split("\t")[:2] == ["first", "sites/first.yaml"]
    assert first.split("\t")[2].startswith("12 of 12") and "gtin" in first.split("\t")[3]
    assert "\t-\t-\tall: see line 5" in result.stdout


def test_as_json_there_is_one_object_for_each_address(project: Path) -> None:
    with StaticShop(TEMPLATES["workshop"]().pages) as shop:
        result = run("-f", "-", "--json", *RATE, typed=f"{shop.url}/all first\nx\n", code=1)
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["line"], first["site"], first["problem"]) == (1, "first", None)
    assert first["file"].endswith("sites/first.yaml") and first["fields"]["title"]["pages"] == 12
    assert (second["address"], second["file"]) == ("x", None) and "fix" in second["problem"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--schedule", "61 * * * *"], "--schedule '61 * * * *': "),
        (["--queue", "My queue"], "--queue 'My queue': has the wrong form (fix: "),
        (["--queue", "coordinator"], "--queue 'coordinator': "),
        (["--tags", "garden,!new"], "--tags '!new': has the wrong form (fix: "),
        (["--rate", "fast"], "--rate 'fast': "),
    ],
)
@pytest.mark.usefixtures("project")
def test_options_that_no_definition_can_have_are_refused_first(
    options: list[str], says: str
) -> None:
    with StaticShop(TEMPLATES["workshop"]().pages) as shop:
        for words in ([f"{shop.url}/all"], ["-f", "-"]):
            output = run(*words, *options, typed=f"{shop.url}/all\n", code=2).output
            assert says in output and "fix: " in output
        assert shop.asked == []


@pytest.mark.parametrize("words", [[], ["http://shop.example/", "-f", "-"]])
@pytest.mark.usefixtures("project")
def test_an_address_or_a_list_is_given(words: list[str]) -> None:
    assert "give either URL or --file" in run(*words, code=2).output


@pytest.mark.usefixtures("project")
def test_a_list_without_addresses_is_refused() -> None:
    assert "no address (fix: " in run("-f", "-", typed="# none yet\n", code=2).output


@pytest.mark.parametrize(
    "line", ["ftp://shop.example/", "http://", "a.example A", "a.example b c", "\udcff.example"]
)
def test_a_line_that_names_no_shop_says_how_to_fix_it(line: str) -> None:
    (shop,) = parse_list(iter([line]))
    assert "(fix: " in shop.problem and not shop.site


def list_pages() -> dict[str, str]:
    """A shop whose list has an address for each name."""
    pages = TEMPLATES["workshop"]().pages
    return pages | {f"/all?{name}": pages["/all"] for name in NAMES}


def test_a_shop_that_ends_its_process_ends_no_other(project: Path) -> None:
    """The second shop's survey is killed; the others are read, each by a process of its own."""
    program = (
        "import os, signal\n"
        "from scraper.cli.main import main\n"
        "from scraper.plugins.author.commands import shop_list\n"
        "write = shop_list.write_shop\n"
        "def kill(url, name, *rest, **options):\n"
        "    if name == 'second': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return write(url, name, *rest, **options)\n"
        "shop_list.write_shop = kill\n"
        "main()\n"
    )
    with StaticShop(list_pages()) as shop:
        Path("list.txt").write_text("".join(f"{shop.url}/all?{n} {n}\n" for n in NAMES))
        argv = [sys.executable, "-c", program, "new", "-f", "list.txt", "--json", *RATE]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["site"] for row in rows if not row["problem"]] == ["first", "third"], ended.stderr
    assert "ended by signal 9" in rows[1]["problem"] and ended.returncode == 1


def test_a_signal_while_the_process_forks_ends_the_list(project: Path) -> None:
    """What a handler raises then is ignored by Python."""
    program = (
        "import os, signal\n"
        "from scraper.cli.main import main\n"
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "main()\n"
    )
    with StaticShop(list_pages()) as shop:
        Path("list.txt").write_text("".join(f"{shop.url}/all?{n} {n}\n" for n in NAMES))
        argv = [sys.executable, "-c", program, "new", "-f", "list.txt", *RATE]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    assert not (project / "sites/second.yaml").exists()


@pytest.mark.slow
def test_a_list_ends_by_a_signal_and_shows_what_is_written(project: Path) -> None:
    with StaticShop(list_pages()) as shop:
        Path("list.txt").write_text("".join(f"{shop.url}/all?{n} {n}\n" for n in NAMES))
        argv = [sys.executable, "-m", "scraper", "new", "-f", "list.txt", "--rate", "3/s"]
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "1 of 3: sites/first.yaml written\n"
            os.kill(process.pid, signal.SIGTERM)
            output, _ = process.communicate(timeout=200)
    assert process.returncode == 128 + signal.SIGTERM
    assert "sites/first.yaml" in output and not (project / "sites/third.yaml").exists()
