"""`python -m tests.acceptance.chaos`: faults against a crawl of the sample shop, for as long as is
asked for. See `--help`.

Exit codes: 0, all checks passed; 1, some failed, all of them listed; 130, interrupted.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tests.acceptance.chaos import (
    message_faults,
    network_faults,
    outage_faults,
    process_faults,
    report,
)
from tests.acceptance.chaos.faults import KINDS
from tests.acceptance.chaos.run import Options, Run

# importing them makes their kinds known
FAULTS = (message_faults, network_faults, outage_faults, process_faults)
# from here on with the default settings
LONG_MINUTES = 10.0
SHORT_LEASE_S = 8.0


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if args.end_with_parent:
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1_000_000)
    default = args.default_settings or (args.minutes >= LONG_MINUTES and args.lease_s is None)
    lease_s = None if default else args.lease_s or SHORT_LEASE_S
    kinds = tuple(args.only.split(",")) if args.only else tuple(sorted(KINDS))
    replay = _replay(argv if argv is not None else sys.argv[1:], seed)
    options = Options(
        seed=seed, minutes=args.minutes, products=args.products, latency_ms=args.latency_ms, lease_s=lease_s,
        hole_s=args.hole_s, workers=args.workers, coordinators=args.coordinators, kinds=kinds, keep=args.keep, replay=replay,
    )  # fmt: skip
    print(f"seed {seed}; the same again: {replay}", flush=True)
    run = Run(options)
    try:
        found = run.all()
    except KeyboardInterrupt:
        print("interrupted; everything is ended", file=sys.stderr)
        return 130
    report.show(found)
    if args.json:
        report.write(found, args.json)
    return 0 if found.passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.acceptance.chaos", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=1.25,
        help="of faults (default: 1.25; start and checks come on top)",
    )
    parser.add_argument(
        "--seed", type=int, help="the same faults in the same order again (default: a new one)"
    )
    parser.add_argument(
        "--products", type=int, default=3000, help="of the sample shop (default: 3000)"
    )
    parser.add_argument(
        "--latency-ms", type=float, default=150.0, help="of its pages (default: 150)"
    )
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--coordinators", type=int, default=3)
    parser.add_argument(
        "--lease-s",
        type=float,
        help=f"SCRAPER_LEASE_S (default: {SHORT_LEASE_S:g}, long runs: unset)",
    )
    parser.add_argument(
        "--default-settings",
        action="store_true",
        help=f"so from {LONG_MINUTES:g} minutes on anyway",
    )
    parser.add_argument(
        "--hole-s", type=float, help="of each hole in a network (default: as other outages)"
    )
    parser.add_argument("--only", metavar="KIND,…", help="these kinds of fault alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--keep", action="store_true", help="leave the folder with data and logs")
    parser.add_argument("--end-with-parent", action="store_true", help=argparse.SUPPRESS)
    return parser


def _replay(argv: Sequence[str], seed: int) -> str:
    rest = list(argv)
    if "--seed" in rest:
        at = rest.index("--seed")
        del rest[at : at + 2]
    return shlex.join(["python", "-m", "tests.acceptance.chaos", "--seed", str(seed), *rest])


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
