"""`scraper init`: makes a project folder. `scraper settings`: shows settings and their origins."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from scraper.cli.common.shared import json_option, load_settings, print_json
from scraper.errors import ConfigError
from scraper.infra import shipped
from scraper.infra.redaction import redact
from scraper.registry import PROJECT_FILE
from scraper.settings import Settings, short_name, variable
from scraper.sites.schema import schema_text

SETTINGS = """\
# Settings of this project. All of them, with their defaults: `scraper settings`.
# A variable of the environment wins: SCRAPER_ATTEMPTS_MAX over attempts_max, DATABASE_URL over
# database_url.
# Secrets belong in files of their own: flower_password_file = "secrets/flower".

# database_url = "postgresql://scraper@db.example/scraper"   # unset: a PostgreSQL in .scraper
# redis_url = "redis://redis.example:6379/0"                 # unset: a Valkey in .scraper
# attempts_max = 4
"""
EXAMPLE = """\
# yaml-language-server: $schema=schema.json
# One shop. `scraper sites check` says what is wrong, with the line and how to fix it.

start: https://shop.example/all?page=1      # a listing page; or sitemap: https://shop.example/sitemap.xml
rate: 60/m                                  # requests to one host, by all workers together
revisit: 12h                                # product pages younger than this are not fetched again
# schedule: "0 6 * * *"                     # cron, in quotes; without it: scraper crawl example
# timezone: Europe/Berlin
# queue: residential                        # the queue of its pages; the default is datacenter

listing:
  products: a.product-link                  # the links to product pages
  pages: {css: .pager, regex: 'of (\\d+)', url: "?page={page}"}     # "Page 1 of 42": all 42 at once
  # next: a[rel=next]                       # or: the link to the next page

product:
  id: {url: '/p/(\\d+)'}                     # the shop's own number of a product
  fields:
    name: {css: h1, required: true}         # a page without it is never stored over good data
    price: {css: .price, type: price, required: true}
    brand: {jsonld: brand.name}             # from the page's JSON-LD
"""
IGNORED = ".scraper/\nsecrets/\n.env\n*.csv\n*.jsonl\n*.parquet\n"
DEPLOYED = ("grafana", "prometheus", "seccomp")
HIDDEN = "(hidden)"


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--compose", is_flag=True, help="Write a docker-compose.yml as well.")
@json_option()
def init(folder: Path, compose: bool, as_json: bool) -> None:
    """Create a project in FOLDER (default: this one): settings, an example definition, .gitignore.

    Keeps existing files.
    """
    files = {
        PROJECT_FILE: SETTINGS,
        "sites/example.yaml": EXAMPLE,
        "sites/schema.json": schema_text(),
        ".gitignore": IGNORED,
    }
    if compose:
        files |= _deployment_files()
    if (folder / "sites").is_dir():
        del files["sites/example.yaml"]
    try:
        written = [name for name, text in files.items() if _write_new(folder / name, text)]
    except OSError as error:
        raise ConfigError(f"{folder}: cannot make a project: {error}") from None
    if as_json:
        print_json({"folder": str(folder), "written": written})
        return
    for name in written:
        click.echo(f"{folder / name} written")
    if not written:
        click.echo(f"{folder} is a project already: nothing was written")
    if compose:
        click.echo("for containers: python3 deploy/make_secrets.py, then docker compose up -d")
    cd = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"next: {cd}scraper up, then scraper demo, or edit sites/example.yaml")


def _deployment_files() -> dict[str, str]:
    """Returns the compose file and the files that it mounts, for an image with the package."""
    image = Path(__file__).with_name("project.Dockerfile").read_text()
    deploy = shipped.path("deploy")
    paths = [deploy / "make_secrets.py", *(deploy / name for name in DEPLOYED)]
    mounted = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    return {
        "docker-compose.yml": shipped.path("docker-compose.yml").read_text(),
        "Dockerfile": image.replace("@VERSION@", version("celery-scraper")),
        **{f"deploy/{file.relative_to(deploy)}": file.read_text() for file in mounted},
    }


def _write_new(path: Path, text: str) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
def settings(as_json: bool, changed: bool) -> None:
    """Show the settings in force, and where each comes from. Secrets are hidden."""
    values, origins = load_settings(), Settings.sources()
    rows: list[dict[str, Any]] = []
    for name, field in Settings.model_fields.items():
        if changed and name not in origins:
            continue
        rows.append(
            {
                "name": short_name(name, field),
                "value": _hide_secrets(name, getattr(values, name)),
                "from": origins.get(name, "default"),
                "variable": variable(name, field),
                "description": field.description,
            }
        )
    if as_json:
        print_json(rows)
        return
    for row in rows:
        value = "-" if row["value"] is None else row["value"]
        click.echo(f"{row['name']:<24}{value!s:<28}{row['from']}")


def _hide_secrets(name: str, value: Any) -> Any:
    """Hides passwords: a setting that is one, and those inside URLs."""
    if value is None:
        return None
    if name in ("secret_key", "flower_password"):
        return HIDDEN
    return redact(str(value)) if isinstance(value, (str, Path)) else value
