"""`scraper run`: runs a user's function on the workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO, Any

import click

from scraper.cli.common.shared import load_settings, print_json
from scraper.cli.common.tables import one_line
from scraper.errors import CallsFailedError
from scraper.infra.database import dumps
from scraper.plugins.functions.client import CallError, Client


@click.command()
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("inputs", metavar="[URLS]...", nargs=-1)
@click.option(
    "-f",
    "--file",
    "file",
    type=click.File("r"),
    help="Read one input per line; - is standard input.",
)
@click.option(
    "--queue", default="datacenter", show_default=True, help="The queue whose workers run it."
)
@click.option("--region", help="The workers' region, such as eu; default: any.")
@click.option("--site", help="Use this site's rate, headers and proxies.")
@click.option("--proxy", help="The class of proxies to use.")
@click.option(
    "--rate", help="Requests to a host by the whole fleet, such as 60/m; default: as for a site."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    help="Requests at once to a host, for the whole fleet.",
)
@click.option(
    "--priority", default="normal", show_default=True, help="high, normal, low, or 0 to 9."
)
@click.option(
    "--input-timeout",
    "input_timeout_s",
    type=click.FloatRange(min=0.01),
    help="Seconds for one input.",
)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.01), help="Seconds for the whole call."
)
@click.option("--unordered", is_flag=True, help="Print results as they come.")
@click.option(
    "--local/--no-local",
    default=None,
    help="Start a worker here if none serves the queue (default with embedded servers).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def run(
    function: str,
    inputs: tuple[str, ...],
    file: IO[str] | None,
    unordered: bool,
    local: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Call MODULE:FUNCTION on the workers, once for each of URLS.

    Prints results in the order of the inputs, as they come; exits with 4 if some failed. URLS may
    be any text; - reads lines from standard input. SCRAPER_FUNCTIONS must name the module.
    """
    if bool(inputs) == (file is not None):
        raise click.UsageError("give URLS, or --file, or - for the standard input")
    load_settings()
    lines = _read_lines(file or sys.stdin) if file or inputs == ("-",) else iter(inputs)
    texts: dict[int, str] = {}
    inputs_ = _remember_lines(lines, texts)
    done = failed = 0
    try:
        with (
            Client(local=local) as client,
            client.map(function, inputs_, ordered=False, return_exceptions=True, **options)
            if unordered
            else client.map(function, inputs_, return_exceptions=True, **options) as call,
        ):
            for index, result in call if unordered else enumerate(call):
                done += 1
                failed += isinstance(result, CallError)
                _print_result(index, texts.pop(index), result, as_json=as_json)
                _print_progress(done, failed, call.sent)
    except KeyboardInterrupt:
        click.echo(f"\ninterrupted: {done} done; the rest is cancelled", err=True)
        sys.exit(130)
    if failed:
        raise CallsFailedError(f"{failed} of {done} calls failed")


def _read_lines(file: IO[str]) -> Iterator[str]:
    return (line.strip() for line in file if line.strip())


def _remember_lines(lines: Iterator[str], texts: dict[int, str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        texts[index] = line
        yield line


def _print_result(index: int, text: str, result: Any, *, as_json: bool) -> None:
    if isinstance(result, CallError):
        if as_json:
            names = ("type", "message", "blame", "outcome", "traceback")
            error = {name: getattr(result, name) for name in names}
            print_json({"index": index, "input": text, "error": error})
        else:
            click.echo(
                f"{one_line(text)}\t{result.type}: {one_line(result.message)} ({result.blame})",
                err=True,
            )
    elif as_json:
        print_json({"index": index, "input": text, "result": result})
    else:
        shown = result if isinstance(result, str) else dumps(result)
        click.echo(f"{one_line(text)}\t{one_line(shown)}")


def _print_progress(done: int, failed: int, sent: int) -> None:
    """Prints the progress on stderr, if that is a terminal and stdout is not."""
    if sys.stderr.isatty() and not sys.stdout.isatty() and (done % 10 == 0 or done == sent):
        click.echo(f"\r{done} of {sent} done, {failed} failed ", err=True, nl=done == sent)
