"""The fleet's status on one screen of any size, for `scraper status` and `scraper watch`.

Each part says how many rows it hides. On a small screen columns go first, then rows: those of ended
crawls before running ones, those of the longest list before shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scraper.cli.common.tables import format_span, one_line
from scraper.frontier.progress import STATES, CrawlProgress
from scraper.infra.redaction import redact
from scraper.views import crawl_progress as progress
from scraper.views.dashboard import FleetStatus, WorkerState
from scraper.views.host_states import HostState
from scraper.views.queue_stats import PageTrouble, QueueState

BAR_CELLS = 12
# Cells between two columns.
GAP = 1
# Rows of each part, however small the screen.
ROWS_LEAST = 2
WORKER_STATES = {"silent": "red", "busy": "green", "idle": "dim", "coordinator": "cyan"}
SORTS = ("worst", "site", "rate", "failed", "newest")
PHASES = {
    "suspect": "red",
    "waiting": "yellow",
    "failing": "yellow",
    "dead pages": "yellow",
    "fetching": "green",
    "discovering": "cyan",
    "paused": "yellow",
    "failed": "red",
    "stopped": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `from_width`: the narrowest screen that shows it. `least`: the cells it keeps when
    columns shrink; None: it never shrinks."""

    title: str
    from_width: int = 0
    least: int | None = 4
    right: bool = False


def _number_column(title: str, from_width: int = 0) -> Column:
    return Column(title, from_width, least=None, right=True)


CRAWLS = [
    _number_column("id", 60),
    Column("site", least=8),
    Column("state", least=None),
    Column("", 110, least=None),
    _number_column("pages", 34),
    _number_column("now", 66),
    _number_column("found", 90),
    _number_column("failed", 50),
    _number_column("left"),
    _number_column("ended", 100),
    Column("why", 76, least=12),
]
QUEUES = [
    Column("queue", least=8),
    _number_column("due"),
    _number_column("later", 44),
    _number_column("held", 74),
    _number_column("leased", 34),
    _number_column("batches", 58),
    _number_column("oldest due", 50),
    _number_column("workers", 40),
]
HOSTS = [Column("host", least=12), Column("what", least=12), _number_column("due", 50)]
WORKERS = [
    Column("worker", least=12), Column("state", least=None), _number_column("batches", 60),
    _number_column("pages", 40), Column("queues", 50, least=8),
]  # fmt: skip
ERRORS = [
    _number_column("ago"), Column("site", 50, least=6), Column("blames", least=None),
    Column("outcome", least=None), _number_column("pages", 66), Column("what", 44, least=8),
]  # fmt: skip


@dataclass(slots=True)
class Choice:
    """Which crawls to show, from the crawl number `first` on. `shown`: how many the last screen
    had. `typing`: whether a search is being typed."""

    sort: str = "worst"
    search: str = ""
    first: int = 0
    shown: int = 0
    typing: bool = False

    def arrange(self, crawls: Sequence[CrawlProgress]) -> list[CrawlProgress]:
        """Returns the matching crawls in the chosen order, the newest first among equals."""
        matching = [c for c in crawls if self.search.lower() in c.site.lower()]
        keys: dict[str, Callable[[CrawlProgress], Any]] = {
            "worst": lambda c: (rank(c), -c.failed),
            "site": lambda c: c.site,
            "rate": lambda c: -c.recent_per_s,
            "failed": lambda c: -c.failed,
            "newest": lambda c: -c.id,
        }
        return sorted(matching, key=lambda c: (keys[self.sort](c), -c.id))


def first_choice(*, one_site: bool) -> Choice:
    """Returns the initial choice: the worst crawl of a fleet first, the newest of one site."""
    return Choice(sort="newest" if one_site else "worst")


def rank(crawl: CrawlProgress) -> int:
    """Ranks a crawl, the worst lowest; running crawls come before those that ended well."""
    return STATES.index(crawl.state) if crawl.state in STATES else len(STATES)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the screen. `about` follows the number of hidden rows, and is cut first."""

    title: str
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Text | str]] = ()
    note: str = ""
    about: str = ""


def make_screen(
    status: FleetStatus,
    *,
    width: int,
    height: int | None,
    header: Text | None = None,
    choice: Choice | None = None,
) -> Group:
    """Renders as many rows as fit into `height` (None: all rows)."""
    choice = choice or first_choice(one_site=status.totals.sites == 1)
    parts = [part for part in make_parts(status, choice) if part.rows or part.note]
    room = None if height is None else height - (header is not None)
    if room is not None and status.totals.sites == 1:
        room -= _part_title(parts[0], 0).cell_len // width
    sizes = fit_rows([len(part.rows) for part in parts], room)
    choice.shown = sizes[0] if parts[0].columns is CRAWLS else 0
    lines: list[RenderableType] = [] if header is None else [header]
    for part, size in zip(parts, sizes, strict=True):
        title = _part_title(part, size)
        # A single site's reason is shown whole: there is room for it.
        if height is not None and not (part.columns is CRAWLS and status.totals.sites == 1):
            title.truncate(width, overflow="ellipsis")
        lines.append(title)
        if size:
            lines.append(_make_table(part, size, width))
    return Group(*lines)


def fit_rows(sizes: Sequence[int], room: int | None) -> list[int]:
    """Returns how many rows of each part fit into `room` lines; a title and a list's column titles
    take a line each. The first part shrinks last."""
    fitted = list(sizes)
    if room is None:
        return fitted
    heads = sum(2 if size else 1 for size in sizes)
    while sum(fitted) + heads > room:
        longest = max(range(1, len(fitted)), key=lambda k: fitted[k], default=0)
        if fitted[longest] <= ROWS_LEAST:
            longest = 0
        if not fitted or fitted[longest] <= ROWS_LEAST:
            break
        fitted[longest] -= 1
    return fitted


def _part_title(part: Part, size: int) -> Text:
    hidden = len(part.rows) - size
    return Text.assemble(
        (part.title, "bold"),
        (f"  {hidden:,} more" if hidden else "", "dim"),
        (f"  {part.about}" if part.about else "", "bold"),
        (f"  {part.note}" if part.note else "", "yellow"),
    )


def _make_table(part: Part, size: int, width: int) -> Table:
    visible = [k for k, column in enumerate(part.columns) if width >= column.from_width]
    columns = [part.columns[k] for k in visible]
    rows = [[_as_text(row[k]) for k in visible] for row in part.rows[:size]]
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column, cells in zip(columns, fit_columns(columns, rows, width), strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=cells,
        )
    for row in rows:
        table.add_row(*row)
    return table


def fit_columns(columns: Sequence[Column], rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """Returns the width of each column: its longest text if there is room; otherwise the widest
    columns shrink, down to their `least`. (rich would shrink all columns alike, and short ones
    would disappear.)"""
    widths = [
        max(cell_len(column.title), *(row[k].cell_len for row in rows))
        for k, column in enumerate(columns)
    ]
    least = [
        width if column.least is None else min(width, column.least)
        for width, column in zip(widths, columns, strict=True)
    ]
    while sum(widths) + GAP * (len(widths) - 1) > room:
        widest = max(range(len(widths)), key=lambda k: (widths[k] > least[k], widths[k]))
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
    return widths


def _as_text(content: Text | str) -> Text:
    return content if isinstance(content, Text) else Text(content)


def make_parts(status: FleetStatus, choice: Choice | None = None) -> list[Part]:
    choice = choice or first_choice(one_site=status.totals.sites == 1)
    crawls = choice.arrange(status.crawls)[choice.first :]
    running = sum(crawl.active for crawl in status.crawls)
    about = ""
    if status.totals.sites > 1:
        stand = ", ".join(f"{sites} {state}" for state, sites in status.totals.states.items())
        about = f"{status.totals.sites:,} sites: {stand}"
    elif crawls and (why := status.why.get(crawls[0].id)):
        about = f"{crawls[0].state}: {one_line(why)}"
    dead = ", ".join(f"{pages.site} {pages.pages:,} {pages.status}" for pages in status.dead)
    no_crawl = "" if status.crawls else "none yet; `scraper crawl SITE` starts one"
    if status.crawls and not crawls:
        no_crawl = "no site matches"
    redis, broker = status.away.get("redis"), status.away.get("broker")
    return [
        Part(
            f"crawls  {running} running",
            CRAWLS,
            [_crawl_cells(c, status.why.get(c.id, "")) for c in crawls],
            no_crawl,
            about,
        ),
        Part("paused sites", note=", ".join(status.paused)),
        Part("queues", QUEUES, [*map(_queue_cells, status.queues)]),
        Part(
            "hosts in trouble",
            HOSTS,
            [*map(_host_cells, status.hosts)],
            f"Redis does not answer: {redis}" if redis else "",
        ),
        Part(
            f"workers  {len(status.workers)}",
            WORKERS,
            [*map(_worker_cells, status.workers)],
            f"the broker does not answer: {broker}" if broker else "",
        ),
        Part("given up", note=dead),
        Part("latest errors", ERRORS, [*map(_error_cells, status.errors)]),
    ]


def _crawl_cells(crawl: CrawlProgress, why: str) -> list[Text | str]:
    known = crawl.state in STATES and crawl.state not in ("running", "paused")
    state = crawl.state if known else crawl.ending or crawl.phase
    state = "dead pages" if state == "completed with dead pages" else state
    per_s = progress.per_s(crawl)
    left = progress.format_eta(crawl, per_s)
    if not crawl.active or left == crawl.phase:
        left = ""
    ended = crawl.finished_at and f"{crawl.finished_at.astimezone():%m-%d %H:%M %Z}"
    reads_nothing = progress.reads_nothing(crawl)
    coverage = crawl.coverage
    share = f"{coverage.products:,}/{coverage.expected:,}" if coverage else ""
    unread = Text(progress.describe_pages(crawl), "yellow") if reads_nothing else None
    return [
        str(crawl.id), crawl.site, Text(state, PHASES.get(state, "")),
        _draw_bar(crawl) if crawl.active else "", f"{crawl.done:,}/{crawl.total:,}",
        f"{per_s:,.0f}/s" if crawl.active else "", share,
        Text(f"{crawl.failed:,}", "red" if crawl.failed else "dim"), left, ended or "",
        unread or one_line(why),
    ]  # fmt: skip


def _draw_bar(crawl: CrawlProgress) -> Text:
    """Draws the share of finished pages; dots while the total still grows."""
    if crawl.phase == "discovering" or not crawl.total:
        return Text("·" * BAR_CELLS, "dim")
    full = int(BAR_CELLS * crawl.done / crawl.total)
    return Text.assemble(("━" * full, "green"), ("─" * (BAR_CELLS - full), "dim"))


def _queue_cells(queue: QueueState) -> list[Text | str]:
    if queue.workers is None:
        served = Text("?", "dim")
    else:
        served = Text(f"{queue.workers}") if queue.workers else Text("none", "red")
    return [
        queue.queue, f"{queue.due:,}", f"{queue.later:,}", f"{queue.held:,}", f"{queue.leased:,}",
        f"{queue.claimed} + {queue.waiting}",
        "" if queue.oldest_s is None else format_span(queue.oldest_s), served,
    ]  # fmt: skip


def _host_cells(host: HostState) -> list[Text | str]:
    trouble = Text(one_line(host_trouble(host)), "yellow")
    return [one_line(host.host), trouble, f"{host.due + host.later:,}"]


def _worker_cells(worker: WorkerState) -> list[Text | str]:
    return [
        worker.worker, Text(worker.state, WORKER_STATES.get(worker.state, "")),
        f"{worker.batches:,}", f"{worker.pages:,}", ", ".join(worker.queues),
    ]  # fmt: skip


def _error_cells(trouble: PageTrouble) -> list[Text | str]:
    return [
        format_span(trouble.ago_s), trouble.site, trouble.blame,
        Text(trouble.outcome, "red" if trouble.final else "yellow"), f"{trouble.pages:,}",
        one_line(f"{redact(trouble.error or '')}  {redact(trouble.url)}"),
    ]  # fmt: skip


def host_trouble(host: HostState) -> str:
    """Says why a host gets fewer requests than its limit allows."""
    troubles = ["paused"] if host.paused else []
    if host.rests_s is not None:
        troubles.append(f"rests {format_span(host.rests_s)} ({host.why})")
    if host.pace < 1:
        rate = f", {host.pace_per_s:.2g}/s" if host.pace_per_s else ""
        troubles.append(f"slowed to {host.pace:.0%}{rate}")
    troubles += host_levels(host)
    return ", ".join(troubles)


def host_levels(host: HostState) -> list[str]:
    """Returns the tiers to which blocks have raised sites at a host."""
    return [f"{route['level']} for {route['site']} ({route['why']})" for route in host.routes]
