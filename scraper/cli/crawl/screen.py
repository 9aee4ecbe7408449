"""A glance on a terminal: one screen, whatever its size. The same for `scraper status` and `scraper
watch`.

Each part says what there is and how much of it is not shown. Where there is little room, columns go
first, then rows: of ended crawls before running ones, of the longest list before the short ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from scraper.frontier.hosts import HostState
from scraper.frontier.progress import Progress
from scraper.infra.redaction import redacted
from scraper.infra.tables import plain
from scraper.views import progress
from scraper.views.glance import Glance
from scraper.views.state import QueueState, Trouble

BAR_CELLS = 12
GAP = 1  # cells between two columns
# of a part, however small the screen
ROWS_LEAST = 2
STATES = {"silent": "red", "busy": "green", "idle": "dim", "coordinator": "cyan"}
PHASES = {
    "fetching": "green",
    "discovering": "cyan",
    "paused": "yellow",
    "failed": "red",
    "stopped": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """`from_width`: the narrowest screen that shows it. `least`: cells it keeps; the longest texts
    give way first."""

    title: str
    from_width: int = 0
    right: bool = False
    least: int = 4
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Text | str]]
    note: str = ""


class Screen:
    """Rendered by rich: as many rows as fit into `height` (None: all there are)."""

    def __init__(
        self, found: Glance, *, height: int | None, header: RenderableType | None = None
    ) -> None:
        self._parts = [part for part in parts(found) if part.rows or part.note]
        self._height = height
        self._header = header

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = None if self._height is None else self._height - (self._header is not None)
        shown = fitted([len(part.rows) for part in self._parts], room)
        lines = [] if self._header is None else [self._header]
        lines += [
            _part(part, rows, options.max_width)
            for part, rows in zip(self._parts, shown, strict=True)
        ]
        yield Group(*lines)


def fitted(sizes: Sequence[int], room: int | None) -> list[int]:
    """How many rows of each part are shown, where each has a title and each list a line of column
    titles."""
    shown = list(sizes)
    if room is None:
        return shown
    heads = sum(2 if size else 1 for size in sizes)
    while sum(shown) + heads > room:
        longest = max(range(len(shown)), key=lambda k: shown[k], default=None)
        if longest is None or shown[longest] <= ROWS_LEAST:
            break
        shown[longest] -= 1
    return shown


def parts(found: Glance) -> list[Part]:
    running = sum(each.active for each in found.crawls)
    dead = ", ".join(f"{each.site} {each.pages:,} {each.status}" for each in found.dead)
    return [
        Part(
            f"crawls  {running} running",
            [
                Column("id", 60, right=True, whole=True), Column("site", least=8), Column("phase", whole=True),
                Column("", 76, whole=True), Column("pages", 34, right=True, whole=True),
                Column("now", 66, right=True, whole=True), Column("failed", 50, right=True, whole=True),
                Column("left", right=True, whole=True),
            ],
            [_crawl(each, progress.per_s(each)) for each in found.crawls],
            "" if found.crawls else "none yet; `scraper crawl SITE` starts one",
        ),
        Part("paused sites", [], [], ", ".join(found.paused)),
        Part(
            "queues",
            [
                Column("queue", least=8), Column("due", right=True, whole=True), Column("later", 44, right=True, whole=True),
                Column("held", 74, right=True, whole=True), Column("leased", 34, right=True, whole=True),
                Column("batches", 58, right=True, whole=True), Column("oldest due", 50, right=True, whole=True),
                Column("workers", 40, right=True, whole=True),
            ],
            [_queue(each) for each in found.queues],
        ),
        Part(
            "hosts in trouble",
            [Column("host", least=12), Column("what", least=12), Column("due", 50, right=True, whole=True)],
            [_host(each) for each in found.hosts],
            found.away.get("redis", "") and f"Redis does not answer: {found.away['redis']}",
        ),
        Part(
            f"workers  {len(found.workers)}",
            [
                Column("worker", least=12), Column("state", whole=True), Column("batches", 60, right=True, whole=True),
                Column("pages", 40, right=True, whole=True), Column("queues", 50, least=8),
            ],
            [
                [each.worker, Text(each.state, STATES.get(each.state, "")), f"{each.batches:,}", f"{each.pages:,}",
                 ", ".join(each.queues)]
                for each in found.workers
            ],
            found.away.get("broker", "") and f"the broker does not answer: {found.away['broker']}",
        ),
        Part("given up", [], [], dead),
        Part(
            "latest errors",
            [
                Column("ago", right=True, whole=True), Column("site", 50, least=6), Column("blames", whole=True),
                Column("outcome", whole=True), Column("pages", 66, right=True, whole=True), Column("what", 44, least=8),
            ],
            [_error(each) for each in found.errors],
        ),
    ]  # fmt: skip


def span(seconds: float) -> str:
    """A time for people, in one unit.

    >>> span(95.0)
    '95 s'
    """
    seconds = max(0.0, seconds)
    for unit, size, until in (("s", 1, 100), ("min", 60, 100 * 60), ("h", 3600, 72 * 3600)):
        if seconds < until:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def host_trouble(state: HostState) -> str:
    said = ["paused"] if state.paused else []
    if state.rests_s is not None:
        said.append(f"rests {span(state.rests_s)} ({state.why})")
    if state.pace < 1:
        said.append(
            f"slowed to {state.pace:.0%}"
            + (f", {state.pace_per_s:.2g}/s" if state.pace_per_s else "")
        )
    said += [f"{route['level']} for {route['site']} ({route['why']})" for route in state.routes]
    return ", ".join(said)


def _crawl(one: Progress, per_s: float) -> list[Text | str]:
    if one.active:
        left = progress.eta(one, per_s)
        left = "" if left == one.phase else left
    else:
        left = one.finished_at.strftime("%m-%d %H:%M") if one.finished_at else ""
    phase = "suspect" if one.suspect else one.ending or one.phase
    phase = "with dead pages" if phase == "completed with dead pages" else phase
    return [
        str(one.id), one.site, Text(phase, PHASES.get(one.phase, "")),
        _bar(one) if one.active else "", f"{one.done:,}/{one.total:,}", f"{per_s:,.0f}/s" if one.active else "",
        Text(f"{one.failed:,}", "red" if one.failed else "dim"), left,
    ]  # fmt: skip


def _bar(one: Progress) -> Text:
    """Of a total that still grows nothing is full: the bar is only drawn once it is known."""
    if one.phase == "discovering" or not one.total:
        return Text("·" * BAR_CELLS, "dim")
    full = int(BAR_CELLS * one.done / one.total)
    return Text.assemble(("━" * full, "green"), ("─" * (BAR_CELLS - full), "dim"))


def _queue(one: QueueState) -> list[Text | str]:
    oldest = "" if one.oldest_s is None else span(one.oldest_s)
    return [
        one.queue, f"{one.due:,}", f"{one.later:,}", f"{one.held:,}", f"{one.leased:,}",
        f"{one.claimed} + {one.waiting}", oldest, _served(one),
    ]  # fmt: skip


def _served(one: QueueState) -> Text:
    if one.workers is None:
        return Text("?", "dim")
    return Text(f"{one.workers}") if one.workers else Text("nobody", "red")


def _host(one: HostState) -> list[Text | str]:
    return [plain(one.host), Text(plain(host_trouble(one)), "yellow"), f"{one.due + one.later:,}"]


def _error(one: Trouble) -> list[Text | str]:
    what = f"{redacted(one.error or '')}  {redacted(one.url)}"
    return [
        span(one.ago_s), one.site, one.blame, Text(one.outcome, "red" if one.final else "yellow"), f"{one.pages:,}",
        plain(what),
    ]  # fmt: skip


def _part(part: Part, rows: int, width: int) -> RenderableType:
    hidden = len(part.rows) - rows
    more = f"  {hidden:,} more" if hidden else ""
    title = Text.assemble(
        (part.title, "bold"), (more, "dim"), (f"  {part.note}" if part.note else "", "yellow")
    )
    title.truncate(width, overflow="ellipsis")
    if not rows:
        return title
    kept = [k for k, column in enumerate(part.columns) if width >= column.from_width]
    cells = [[_text(row[k]) for k in kept] for row in part.rows[:rows]]
    columns = [part.columns[k] for k in kept]
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column, cells_wide in zip(columns, widths(columns, cells, width), strict=True):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(
            column.title, justify=justify, no_wrap=True, overflow="ellipsis", width=cells_wide
        )
    for row in cells:
        table.add_row(*row)
    return Group(title, table)


def _text(cell: Text | str) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """What each column gets: all it wants where there is room; else the widest that may give way do
    so, down to their least. (rich would take from all alike, and the short ones would be gone.)"""
    wanted = [
        max(cell_len(column.title), *(row[k].cell_len for row in rows))
        for k, column in enumerate(columns)
    ]
    least = [
        want if column.whole else min(want, column.least)
        for want, column in zip(wanted, columns, strict=True)
    ]
    while sum(wanted) + GAP * (len(wanted) - 1) > room:
        widest = max(range(len(wanted)), key=lambda k: (wanted[k] > least[k], wanted[k]))
        if wanted[widest] <= least[widest]:
            break
        wanted[widest] -= 1
    return wanted
