"""`python -m scraper.plugins.demo`: serves the sample shop until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from scraper.plugins.demo.catalogue import Catalogue
from scraper.plugins.demo.faults import Fault, ShopOptions
from scraper.plugins.demo.server import serve
from scraper.plugins.demo.shop import Shop


def main(argv: Sequence[str] | None = None) -> None:
    args = _make_parser().parse_args(argv)
    options = ShopOptions(**{name: getattr(args, name) for name in ShopOptions.model_fields})
    for number in (signal.SIGTERM, signal.SIGINT):
        # The shop holds nothing to close, and ends at once.
        signal.signal(number, signal.SIG_DFL)
    shop = Shop(Catalogue(args.products, args.seed), options, args.public_url)
    try:
        asyncio.run(_serve_forever(shop, args.port, args.host))
    except OSError as error:
        # The text of asyncio's error hides the cause.
        sys.exit(
            f"the sample shop cannot listen at {args.host}:{args.port}: "
            f"{os.strerror(error.errno or 0)} (fix: another --port, 0 for a free one, or --host)"
        )


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scraper.plugins.demo", description="The sample shop."
    )
    parser.add_argument("--port", type=int, default=8800, help="0 takes a free one (default: 8800)")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: 127.0.0.1)")
    parser.add_argument(
        "--public-url", default="", help="base of its own links (default: http://HOST:PORT)"
    )
    parser.add_argument(
        "--products", type=int, default=1000, help="products at the first visit (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=7)
    for name, field in ShopOptions.model_fields.items():
        flag = "--" + name.replace("_", "-")
        if field.annotation is bool:
            parser.add_argument(flag, action="store_true", help=field.description)
        elif name == "outage":
            parser.add_argument(
                flag, choices=[kind.value for kind in Fault], help=field.description
            )
        else:
            parser.add_argument(flag, type=float, default=0.0, help=field.description)
    return parser


async def _serve_forever(shop: Shop, port: int, host: str) -> None:
    server = await serve(shop, port, host)
    print(f"listening on {shop.base_url}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
