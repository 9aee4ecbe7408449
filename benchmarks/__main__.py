"""`make bench`: this application and its peers, side by side in one run, on the same shop, fields
and PostgreSQL.

Every contender has one core; the shop, PostgreSQL and Valkey have the others. What counts is pages
a CPU-second of all of a contender's processes, their ended children included. Rows are compared
with the shop's truth: who loses one has no result. Progress goes to stderr, the table to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import contenders, ours, scaling
from benchmarks.contenders import PEERS
from benchmarks.large.definition import READS
from benchmarks.large.shop import saved_pages
from benchmarks.results import Line, Run, rotated, table
from benchmarks.rig import Rig, rig

OURS = "ours"
# of each saved page, as different products
COPIES = 8
SMALL = ("small",)
TITLES = {"jsonld": "JSON-LD alone", "css": "Eight fields by CSS", "xpath": "Eight fields by XPath"}
OURS_TITLES = {"first": "this application, first crawl", "second": "this application, second crawl"}
INTERRUPTED = 130
# load average from which on other processes disturb the figures
BUSY = 0.5


def main() -> None:
    args = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(_scale(args) if args.workers > 1 else _compare(args))
    except KeyboardInterrupt:
        say("interrupted: everything that was started has been ended")
        sys.exit(INTERRUPTED)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join((OURS, *PEERS))
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        metavar="N",
        help="runs of each contender, in turn (default: 1)",
    )
    parser.add_argument(
        "--products",
        type=int,
        metavar="N",
        help="in the shop (default: 10000; 1000 of large pages; eight of each saved page)",
    )
    parser.add_argument(
        "--size",
        type=_bytes,
        metavar="BYTES",
        help="product pages of that median size (50k, 250k, 600k), a tenth above 2.5 times of it, over "
        "TLS and gzip, read in three ways",
    )
    parser.add_argument(
        "--pages", type=Path, metavar="FOLDER", help="likewise, the saved pages in there"
    )
    parser.add_argument("--only", metavar="NAMES", help=f"some contenders, by commas: {names}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there as well")
    parser.add_argument(
        "--strict", action="store_true", help="exit code 1 also where a peer has no result"
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        default=64,
        metavar="N",
        help="requests at once, for each of --workers (default: 64)",
    )
    parser.add_argument(
        "--latency-ms", type=float, default=0.0, metavar="MS", help="the shop's mean (default: 0)"
    )
    parser.add_argument(
        "--no-events", dest="events", action="store_false", help="ours without Flower's task events"
    )
    parser.add_argument(
        "--profile", type=Path, metavar="FOLDER", help="py-spy's raw stacks of our worker"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="no peers: so many of our workers, a core each, against one",
    )
    parser.add_argument("--read", choices=READS, help="with --size or --pages: in this way alone")
    args = parser.parse_args()
    if args.pages is not None and not saved_pages(args.pages):
        parser.error(f"--pages: there is no .htm or .html file in {args.pages}")
    saved = COPIES * len(saved_pages(args.pages)) if args.pages else 0
    args.products = args.products or saved or (1000 if args.size else 10_000)
    unknown = set((args.only or OURS).split(",")) - {OURS, *PEERS}
    if unknown:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}; there are {names}")
    if min(args.rounds, args.products, args.concurrency, args.workers) < 1:
        parser.error("--rounds, --products, --concurrency and --workers are 1 or more")
    return args


def _bytes(text: str) -> int:
    number = int(text.lower().removesuffix("k")) * (1000 if text.lower().endswith("k") else 1)
    if not 5_000 <= number <= 5_000_000:
        raise argparse.ArgumentTypeError("it is not between 5k and 5000k")
    return number


def _compare(args: argparse.Namespace) -> int:
    _warn_if_busy()
    lines, failed = [], False
    large = {"size": args.size, "saved": args.pages}
    with rig(args.products, args.latency_ms, args.concurrency, **large) as place:
        reads = READS if args.size or args.pages else SMALL
        for read in reads if args.read is None else (args.read,):
            place.choose(read)
            if read != "small":
                print(f"{TITLES[read]}, {args.pages or f'{args.size:,} bytes'}, TLS and gzip")
            of_read = _measured(place, args, read)
            print(table(of_read) + "\n")
            lines += of_read
            problems = {line.name for line in of_read if line.problem}
            failed |= bool(problems if args.strict else problems & OURS_TITLES.keys())
    if args.json:
        _write(args, lines)
    return int(failed)


def _measured(place: Rig, args: argparse.Namespace, read: str) -> list[Line]:
    wanted = [
        name
        for name in (OURS, *PEERS)
        if (args.only is None or name in args.only.split(","))
        and (name == OURS or read in PEERS[name].reads)
    ]
    lines = {name: Line(name, title) for name, title in OURS_TITLES.items() if OURS in wanted}
    lines |= {name: Line(name, PEERS[name].title) for name in wanted if name != OURS}
    say(
        f"{args.products:,} products, {place.pages:,} pages, {args.rounds} round(s) of {len(wanted)}"
    )
    for round_ in range(args.rounds):
        for name in rotated(wanted, round_, args.rounds):
            if name == OURS:
                runs = _ours(place, args)
                for which, run in zip(OURS_TITLES, runs, strict=True):
                    _note(lines[which], run, round_)
            else:
                _note(lines[name], contenders.crawl(place, PEERS[name]), round_)
    for line in lines.values():
        line.read = read
    return list(lines.values())


def _ours(place: Rig, args: argparse.Namespace) -> list[Run]:
    try:
        return ours.crawl(place, list(OURS_TITLES), events=args.events, profile=args.profile)
    except (RuntimeError, OSError) as error:
        return [Run(problem=str(error))] * len(OURS_TITLES)


def _scale(args: argparse.Namespace) -> int:
    _warn_if_busy()
    with rig(args.products, args.latency_ms, args.concurrency * args.workers) as place:
        measured = scaling.measure(place, args.workers, args.rounds, say)
    print(scaling.table(measured))
    if args.json:
        args.json.write_text(
            json.dumps(_about(args) | {"scaling": scaling.as_json(measured)}, indent=2) + "\n"
        )
    return int(any(run.problem for runs in measured.values() for run in runs))


def _note(line: Line, run: Run, round_: int) -> None:
    line.runs.append(run)
    said = run.problem or f"{run.per_cpu_s:,.0f} pages a CPU-second, {run.wall_s:.1f} s"
    say(f"round {round_ + 1}  {line.title:<34} {said}")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def _warn_if_busy() -> None:
    load = os.getloadavg()[0]
    if load > BUSY:
        say(
            f"this machine is busy with something else (load {load:.1f}): the figures will be noisy"
        )


def _write(args: argparse.Namespace, lines: list[Line]) -> None:
    args.json.write_text(
        json.dumps(_about(args) | {"contenders": [line.as_json() for line in lines]}, indent=2)
        + "\n"
    )


def _about(args: argparse.Namespace) -> dict[str, Any]:
    names = ("products", "rounds", "concurrency", "latency_ms", "events", "size")
    return {
        "options": {name: getattr(args, name) for name in names},
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        },
        "peers": contenders.versions(),
    }


if __name__ == "__main__":
    main()
