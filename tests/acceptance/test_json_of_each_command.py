"""With `--json` each command prints one JSON value: what it found on stdout, or the reason of its
failure on stderr. The exit code is the same without `--json`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import sqlalchemy as sa

from scraper.cli.main import main
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.support.all_commands import WITHOUT, commands
from tests.support.shops.crawled_shop import A, B, Shop

# What is found in the shop below. Commands that begin or end processes, wait for others, or need
# what the shop does not have, are among the failures.
DONE = (
    "accept shop --dry-run", "archive list", "archive list shop", "archive prune",
    "archive verify", "articles search", "changes shop --since 0", "consumers", "dead drop shop --all",
    "dead list", "dead list shop --summary", "dead replay shop --all --dry-run", "dedup show shop",
    "export shop -o {folder}/out.csv", "export --all -o {folder}/all.xlsx", "history shop a", "host list",
    "host list shop.example", "host pause shop.example", "host resume shop.example",
    "host set shop.example --rate 1/s", "init {folder}/fresh", "links", "links review", "links update",
    "login list", "migrate", "migrate --dry-run", "plugins", "products shop",
    "products shop --where price>1", "proxies", "reject shop --dry-run", "report 1", "settings",
    "sites check", "sites check shop", "sites delete shop --dry-run", "sites list", "sites pause shop",
    "sites resume shop", "sites show shop", "status", "status shop", "stop --all", "users list",
    "why shop a", "crawl shop", "accept shop", "reject shop", "stop shop",
)  # fmt: skip
FAILED = (
    "accept 999", "alerts", "plan shop", "accept none", "alerts test", "alerts test none", "archive list none",
    "archive prune --what", "archive verify none", "articles import none.csv", "articles show none",
    "articles search --limit x", "changes none", "changes shop --since x", "consumers --forget none",
    "crawl none", "dead drop", "dead list none", "dead replay", "dead show 999", "dedup reset none",
    "dedup show none", "down --what", "--what", "export", "export none -o {folder}/x.csv",
    "export shop -o {folder}/x.jsonl --bom", "export shop -o {folder}/x.txt",
    "history none a", "history shop none",
    "host pause", "host resume", "host set shop.example --rate fast",
    "init {folder}/sites --what", "links --what", "links confirm shop:a none:b", "links refuse a b",
    "links review --limit 0", "links update --what", "login check none", "login forget none",
    "login list none", "migrate --down --plugin none", "new", "new nothing://x", "new -f none.txt",
    "plan none", "plugins --what", "products none", "products shop --where x~~1", "proxies --host none",
    "proxies check", "reextract none", "reject none", "repair none", "report 999", "run none:none",
    "run json:loads http://a.example --rate fast", "settings --what", "sites check none",
    "sites check {folder}/broken.yaml", "sites delete none", "sites list --what", "sites pause none",
    "sites record none", "sites resume none", "sites show none", "sites test none", "status none",
    "stop", "stop none", "try none", "try none.html", "up --what", "users add -x", "users add a --role b",
    "users list --what", "users passwd none", "users remove none", "watch none", "why none a",
    "why shop none", "none", "sites none",
)  # fmt: skip


def make_project(engine: sa.Engine, environment: Settings, folder: Path) -> None:
    """A definition whose crawls found two products, one of them in two versions."""
    (environment.sites_dir / "shop.yaml").write_text(
        "start: https://shop.example/\nlisting: {products: a}\n"
        "product: {id: {css: i}, fields: {title: h1, price: {css: b, type: price}}}\n"
    )
    (folder / "broken.yaml").write_text("start: [\n")
    shop = Shop(engine)
    pages = shop.begin(A, B)
    for page, external_id in ((A, "a"), (B, "b")):
        shop.give(pages[page], external_id, title=external_id, price=5, price_currency="EUR")
    shop.end()
    shop.once("a", title="a", price=4, price_currency="EUR")


def explain_done(code: int, out: str, err: str) -> str | None:
    """Returns what is wrong with the output of a command that did what it was asked."""
    if code:
        return f"exit code {code}: {err}"
    try:
        json.loads(out)
    except ValueError as error:
        return f"{error}: {out!r}"
    return None


def explain_failure(code: int, out: str, err: str, plain_code: int, plain_out: str) -> str | None:
    """Returns what is wrong with the output of a command that could not do what it was asked."""
    if code == 0 or code != plain_code:
        return f"exit code {code} with --json, and {plain_code} without it: {out or err}"
    try:
        if out:
            # The problems of a definition are what its check found.
            return None if json.loads(out) else "nothing on stdout"
        error = json.loads(err.splitlines()[-1])
    except (ValueError, IndexError) as reason:
        return f"{reason}: {out!r} {err!r}"
    if set(error) != {"error", "exit_code"} or error["exit_code"] != code or not error["error"]:
        return f"an odd error: {error}"
    return f"stdout without --json: {plain_out!r}" if plain_out else None


def test_what_each_command_prints(
    run: Commands, engine: sa.Engine, environment: Settings, tmp_path: Path
) -> None:
    make_project(engine, environment, tmp_path)
    problems = {}
    for line in DONE:
        done = run.scraper(*line.format(folder=tmp_path).split(), "--json", code=None, timeout_s=60)
        out = done.stdout.splitlines()[0] if line.startswith("changes") else done.stdout
        problems[line] = explain_done(done.returncode, out, done.stderr)
    for line in FAILED:
        words = line.format(folder=tmp_path).split()
        done = run.scraper(*words, "--json", code=None, timeout_s=60)
        plain = run.scraper(*words, code=None)
        problems[line] = explain_failure(
            done.returncode, done.stdout, done.stderr, plain.returncode, plain.stdout
        )
    assert {line: problem for line, problem in problems.items() if problem} == {}


def test_each_command_was_tried() -> None:
    tried = {" ".join(line.split()[:size]) for line in (*DONE, *FAILED) for size in (1, 2)}
    have = {words for words, _ in commands(main, click.Context(main, info_name="scraper"))}
    assert have - set(WITHOUT) <= tried
