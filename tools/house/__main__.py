"""Prints the figures of the house: `python -m tools.house`.

`python -m tools.house KEY` lists the places behind one figure, and `--tighten` moves the limits in
tests/unit/tools/house_ratchet.toml to what is measured.
"""

from __future__ import annotations

import argparse
import gc

from tools.house.figures import FIGURES, RATCHET, House, ratchet, tighten
from tools.house.modules import ROOT


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("key", nargs="?", choices=[figure.key for figure in FIGURES])
    parser.add_argument("--tighten", action="store_true", help="move limits to what is measured")
    arguments = parser.parse_args()
    # The syntax trees stay until the end: looking through them for garbage takes most of the time.
    gc.disable()
    house = House()
    if arguments.tighten:
        print("\n".join(tighten(house)) or f"{RATCHET.relative_to(ROOT)} is tight.")
    elif arguments.key:
        figure = next(figure for figure in FIGURES if figure.key == arguments.key)
        print("\n".join(figure.measure(house).places))
    else:
        print_figures(house)


def print_figures(house: House) -> None:
    width = max(len(figure.title) for figure in FIGURES)
    print(f"{'':{width}}  {'measured':>9}  {'limit':>9}  key")
    for figure in FIGURES:
        measured, limit = figure.show(figure.measure(house).value), ratchet().get(figure.key)
        print(f"{figure.title:{width}}  {measured:>9}  {figure.show(limit):>9}  {figure.key}")


if __name__ == "__main__":
    main()
