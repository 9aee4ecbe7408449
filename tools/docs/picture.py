"""Draws the picture of the architecture: the processes with the data flow between them, and the
package's folders in the order of the import contract in pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scraper"
WIDTH, MARGIN = 980, 20
ROW, GAP = 42, 8
FLOW_HEIGHT = 400
COLOURS = {
    "interface": ("#fdf0dc", "#b3741b"),
    "coordinator": ("#e2ecfb", "#2c5faa"),
    "worker": ("#e1f3e6", "#2b7a43"),
    "shared": ("#eeeeee", "#666666"),
    "plug-in": ("#f3e5f5", "#7b3f8c"),
}
# What each folder does, and in which process it mainly runs.
FOLDERS = {
    "cli": ("interface", "commands"),
    "actions": ("interface", "what commands and buttons do"),
    "views": ("interface", "what screens show"),
    "runtime": ("shared", "extensions of Celery"),
    "process": ("shared", "the life of a process"),
    "worker": ("worker", "a lease, from claim to commit"),
    "coordinator": ("coordinator", "plan, discover, dispatch, reap, finish"),
    "crawl": ("shared", "what a crawl's pages share"),
    "feed": ("interface", "changes, in order"),
    "quality": ("coordinator", "reports on crawls"),
    "results": ("worker", "one transaction, held values"),
    "politeness": ("worker", "rate limits, robots.txt"),
    "proxies": ("worker", "pools and their health"),
    "http": ("worker", "one URL, one bounded response"),
    "frontier": ("shared", "pages, leases, crawls, hosts"),
    "extract": ("worker", "links, fields, items"),
    "infra": ("shared", "database, Redis, logs"),
    "sites": ("shared", "site definitions"),
    "rules": ("shared", "pure decisions"),
}


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    role: str
    title: str
    lines: tuple[str, ...] = ()


FLOW = {
    "beat": Box(20, 60, 130, 56, "coordinator", "Beat", ("no state",)),
    "coordinator": Box(250, 50, 250, 76, "coordinator", "Coordinator",
                       ("plan, discover, dispatch,", "reap, finish")),
    "broker": Box(700, 50, 250, 76, "shared", "Redis or RabbitMQ",
                  ("queues: lease ids only", "Redis: rate limits of all hosts")),
    "postgres": Box(220, 210, 310, 76, "shared", "PostgreSQL: the truth",
                    ("sites, crawls, pages, leases,", "products, versions, feed")),
    "worker": Box(700, 210, 250, 96, "worker", "Worker",
                  ("permit, proxy, request,", "extraction, verdict,", "one transaction")),
    "screens": Box(220, 346, 310, 44, "interface", "Commands, Flower, metrics, SQL"),
    "shop": Box(700, 346, 250, 44, "shared", "The shop's hosts"),
}  # fmt: skip
# From, to, text and its place. An arrow leaves and enters at the given points.
ARROWS = (
    ((150, 88), (250, 88), "1 ticks", (200, 80)),
    ((375, 126), (375, 210), "2 open crawls, lease pages", (383, 172)),
    ((500, 88), (700, 88), "3 lease ids, once committed", (600, 80)),
    ((825, 126), (825, 210), "4 up to 100 pages", (831, 172)),
    ((825, 306), (825, 346), "5 requests", (833, 331)),
    ((700, 248), (530, 248), "6 results", (615, 240)),
    ((375, 286), (375, 346), "7 reads", (383, 321)),
)


def architecture_svg() -> str:
    layers = [*import_layers()]
    plugins = plugin_names()
    height = FLOW_HEIGHT + 74 + (len(layers) + 1) * (ROW + GAP)
    body = [*flow_parts(), *layer_parts(layers, plugins)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        "<title>Architecture</title>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#444"/>'
        "</marker></defs>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def import_layers() -> Iterator[list[str]]:
    """Yields the folders of each layer of the import contract, the highest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (c for c in contracts["contracts"] if c["type"] == "layers")
    for layer in contract["layers"]:
        names = [name.strip() for name in re.split(r"[|:]", layer)]
        yield [name.removeprefix("scraper.").strip("()") for name in names]


def folders() -> set[str]:
    """Returns the folders of the core, which are packages with modules."""
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"plugins"}


def plugin_names() -> list[str]:
    return sorted(path.parent.name for path in PACKAGE.glob("plugins/*/__init__.py"))


def flow_parts() -> Iterator[str]:
    yield heading("Processes and data flow", 30)
    for start, end, text, (x, y) in ARROWS:
        yield (
            f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="#444" '
            'stroke-width="1.5" marker-end="url(#tip)"/>'
        )
        anchor = "middle" if start[1] == end[1] else "start"
        yield f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'
    for box in FLOW.values():
        yield from box_parts(box)


def layer_parts(layers: list[list[str]], plugins: list[str]) -> Iterator[str]:
    """Yields a row for the plug-ins, and one for each layer of the core."""
    top = FLOW_HEIGHT + 44
    yield heading("Folders: each row imports only rows below it", top)
    yield from legend(top)
    y = top + 14
    half = (len(plugins) + 1) // 2
    yield from box_parts(
        Box(MARGIN, y, WIDTH - 2 * MARGIN, ROW + 16, "plug-in", "plugins",
            (", ".join(plugins[:half]), ", ".join(plugins[half:])))
    )  # fmt: skip
    y += ROW + 16 + GAP
    for layer in layers:
        width = (WIDTH - 2 * MARGIN - GAP * (len(layer) - 1)) / len(layer)
        for at, folder in enumerate(layer):
            role, purpose = FOLDERS[folder]
            x = MARGIN + at * (width + GAP)
            yield from box_parts(Box(x, y, width, ROW, role, folder, (purpose,)))
        y += ROW + GAP


def legend(y: float) -> Iterator[str]:
    """Yields what each colour means, at the right."""
    x = WIDTH - MARGIN - 96 * len(COLOURS)
    for at, (role, (fill, stroke)) in enumerate(COLOURS.items()):
        left = x + 96 * at
        yield (
            f'<rect x="{left}" y="{y - 11}" width="12" height="12" fill="{fill}" '
            f'stroke="{stroke}"/><text x="{left + 17}" y="{y}" fill="#444">{role}</text>'
        )


def heading(text: str, y: float) -> str:
    return (
        f'<text x="{MARGIN}" y="{y}" font-size="15" font-weight="600" fill="#222">'
        f"{escape(text)}</text>"
    )


def box_parts(box: Box) -> Iterator[str]:
    fill, stroke = COLOURS[box.role]
    yield (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )
    middle = box.x + box.width / 2
    lines = (box.title, *box.lines)
    first = box.y + box.height / 2 - 17 * (len(lines) - 1) / 2 + 5
    for at, line in enumerate(lines):
        weight = ' font-weight="600"' if at == 0 else ""
        yield (
            f'<text x="{middle:g}" y="{first + 17 * at:g}" text-anchor="middle"{weight} '
            f'fill="#222">{escape(line)}</text>'
        )
