"""The options of the benchmarks that fill frontiers, `benchmarks.growth` and `benchmarks.scale`, and
how both of them end."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.__main__ import INTERRUPTED, say

MOST_BUFFERS_MB = 4096


def make_parser(
    prog: str, description: str | None, pages: str, rounds: int
) -> argparse.ArgumentParser:
    """Returns a parser with the options of both; `pages` and `rounds` are defaults."""
    parser = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, files = parser.add_argument, dict[str, Any](type=Path, metavar="FILE")
    add("--pages", default=pages, metavar="N,N", help="sizes (default: %(default)s)")
    add("--rounds", type=int, default=rounds, metavar="N", help="turns of each size (default: %(default)s)")  # fmt: skip
    add(
        "--buffers",
        default=_advised_buffers(),
        metavar="MB",
        help="PostgreSQL's shared_buffers (default: %(default)s)",
    )
    add("--home", type=Path, metavar="FOLDER", help="keep the databases there for other runs")
    add("--json", **files, help="write what was measured there as well")
    add("--explain", **files, help="EXPLAIN (ANALYZE, BUFFERS) of each statement in the largest size")  # fmt: skip
    return parser


def parse_options(parser: argparse.ArgumentParser, smallest: int) -> argparse.Namespace:
    """Returns the options, with the pages as `sizes` in ascending order."""
    args = parser.parse_args()
    try:
        args.sizes = sorted({int(pages) for pages in args.pages.split(",")})
    except ValueError:
        parser.error("--pages: numbers, by commas")
    if args.sizes[0] < smallest or args.rounds < 1:
        parser.error(f"--pages are {smallest} or more, --rounds 1 or more")
    return args


def run_until_interrupted(run: Callable[[], None]) -> None:
    """Runs the benchmark; SIGTERM and Ctrl-C end it, and what it started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        say("interrupted: everything that was started has been ended")
        sys.exit(INTERRUPTED)


def _advised_buffers() -> str:
    return f"{min(MOST_BUFFERS_MB, psutil.virtual_memory().total // 4 // 2**20)}MB"
