"""What frontiers of several sizes cost, and the ratio of each to the smallest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.sizes import TableSize
from benchmarks.steps import Meter

# a ratio up to which a cost counts as the same
FLAT = 1.3
STEPS = ("dispatch", "claim", "settle", "reap")
# what a page pays for; sending is the broker's
PAGE_STEPS = ("discover", "dispatch", "claim", "settle", "reap")


@dataclass(frozen=True)
class Size:
    """One frontier: its pages, those of a site, what its rounds took, its tables as inserted, and
    the WAL of all rounds."""

    pages: int
    site_pages: int
    meter: Meter
    tables: dict[str, TableSize]
    wal_bytes: int

    def ms(self, step: str, share: float = 0.5) -> float:
        """Milliseconds of one call: the median, or another share of the calls that was not slower."""
        return 1e3 * quantile(self.meter.walls.get(step, ()), share)

    def us_a_page(self, whose: dict[str, float]) -> float:
        return 1e6 * sum(whose.get(step, 0.0) for step in PAGE_STEPS) / max(1, self.meter.pages)

    def bytes_a_page(self, table: str, part: str) -> float:
        return float(getattr(self.tables[table], part)) / self.pages


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed; the median is that of the middle two.

    >>> quantile([4.0, 1.0, 2.0, 3.0], 0.5), quantile(list(range(1, 101)), 0.95)
    (2.5, 95)
    """
    if not values:
        return 0.0
    if share == 0.5:
        return float(median(values))
    return sorted(values)[max(0, min(len(values) - 1, round(share * len(values)) - 1))]


# what, unit, its value, whether it is to be flat
Row = tuple[str, str, Callable[[Size], float], bool]

ROWS: tuple[Row, ...] = (
    *((f"{step}, median", "ms", lambda size, step=step: size.ms(step), True) for step in STEPS),
    *((f"{step}, 95 of 100", "ms", lambda size, step=step: size.ms(step, 0.95), False) for step in STEPS),
    ("CPU of PostgreSQL a page", "us", lambda size: size.us_a_page(size.meter.postgres_s), True),
    ("  of it settling", "us", lambda size: 1e6 * size.meter.postgres_s["settle"] / max(1, size.meter.pages), True),
    ("  of it dispatching", "us", lambda size: 1e6 * size.meter.postgres_s["dispatch"] / max(1, size.meter.pages), True),
    ("CPU of the client a page", "us", lambda size: size.us_a_page(size.meter.client_s), True),
    ("finish, a page of its site", "us", lambda size: 1e3 * size.ms("finish") / size.site_pages, False),
    ("write-ahead log a page", "B", lambda size: size.wal_bytes / max(1, size.meter.pages), False),
    ("pages: table, a page", "B", lambda size: size.bytes_a_page("pages", "table_bytes"), True),
    ("pages: indexes, a page", "B", lambda size: size.bytes_a_page("pages", "index_bytes"), True),
    ("products: table, a page", "B", lambda size: size.bytes_a_page("products", "table_bytes"), True),
    ("products: indexes, a page", "B", lambda size: size.bytes_a_page("products", "index_bytes"), True),
    ("broker's memory, most", "KB", lambda size: max(size.meter.broker_bytes, default=0) / 1e3, True),
)  # fmt: skip


def table(sizes: Sequence[Size]) -> str:
    """One column a size, then its ratio to the smallest; `!` where it is to be flat and is not."""
    first = sizes[0]
    head = f"{'pages in the frontier':<30}{first.pages:>12,}" + "".join(
        f"{size.pages:>12,}{'':>8}" for size in sizes[1:]
    )
    lines = [head.rstrip()]
    for what, unit, value, flat in ROWS:
        base = value(first)
        cells = f"{what + ', ' + unit:<30}{number(base):>12}"
        for size in sizes[1:]:
            ratio = value(size) / base if base else 0.0
            mark = "!" if flat and ratio > FLAT else " "
            cells += f"{number(value(size)):>12}{f'x{ratio:.2f}':>7}{mark}"
        lines.append(cells.rstrip())
    calls = ", ".join(
        f"{len(size.meter.walls['dispatch'])} dispatches and {size.meter.pages:,} pages"
        for size in sizes
    )
    return "\n".join([*lines, f"measured: {calls}"])


def number(value: float) -> str:
    """Three digits, or all before the point.

    >>> number(0.1234), number(12.34), number(1234.5)
    ('0.12', '12.3', '1,234')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def as_json(size: Size) -> dict[str, Any]:
    return {
        "pages": size.pages,
        "settled": size.meter.pages,
        "rows": {f"{what}, {unit}": round(value(size), 4) for what, unit, value, _ in ROWS},
        "calls": {step: len(walls) for step, walls in size.meter.walls.items()},
        "cpu_us_a_page": {
            step: {
                "postgres": round(1e6 * size.meter.postgres_s[step] / max(1, size.meter.pages), 2),
                "client": round(1e6 * size.meter.client_s[step] / max(1, size.meter.pages), 2),
            }
            for step in size.meter.walls
        },
        "tables": {name: vars(found) for name, found in size.tables.items()},
    }
