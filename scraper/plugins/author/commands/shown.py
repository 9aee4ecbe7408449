"""`scraper sites show`: a definition with the defaults of its folder. `scraper sites schema`: the
JSON schema of definitions."""

from __future__ import annotations

import click
import yaml

from scraper.cli.common.definitions import definition_file
from scraper.cli.common.shared import complete_site, json_option, load_settings, print_json
from scraper.plugins.author.schema import schema_text, write_schema
from scraper.sites import loader


@click.command()
@click.argument("name", metavar="SITE", shell_complete=complete_site)
@json_option()
def show(name: str, as_json: bool) -> None:
    """Show the definition of SITE with the keys that it takes from defaults.yaml.

    With --json every key, also those that no file writes.
    """
    settings = load_settings()
    path = definition_file(settings.sites_dir, name)
    site = loader.load_file(path, settings.site_function_modules)
    if as_json:
        print_json(site.model_dump(mode="json"))
        return
    written = loader.read_definition(path)
    for key, value in {"name": site.name, **written.keys}.items():
        place = written.find_place(key, path)
        if place.file != path:
            click.echo(f"# {place}")
        text = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=100)
        click.echo(text, nl=False)


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True),
    help="Write to a file instead of the terminal.",
)
@click.option("--defaults", is_flag=True, help="The schema of defaults.yaml instead.")
def schema(output: str | None, defaults: bool) -> None:
    """Print the JSON schema of a definition, for editors."""
    if output:
        write_schema(output, defaults=defaults)
    else:
        click.echo(schema_text(defaults=defaults), nl=False)
