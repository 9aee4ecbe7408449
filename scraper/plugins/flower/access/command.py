"""`scraper users …`: the users of Flower, their roles, passwords and tokens."""

from __future__ import annotations

import sys

import click

from scraper.cli.common.shared import json_option, load_settings, print_json
from scraper.cli.common.tables import print_table
from scraper.errors import ConfigError, quote_command
from scraper.plugins.flower.access.users import (
    NAME,
    ROLES,
    Role,
    User,
    change_users,
    load_users,
    require_user,
    users_file,
    with_password,
    with_token,
)
from scraper.plugins.flower.settings import FlowerSettings


@click.group()
def users() -> None:
    """Add and remove users of Flower, and their tokens.

    A user may read (look at everything but definitions), operate (also pause, crawl, accept, reject
    and replay), or edit (everything). The login of SCRAPER_FLOWER_USER may do everything.
    """


@users.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What the user may do.")
@click.option("--token", "by_token", is_flag=True, help="For a script: print a token, once.")
@click.option("--oauth", "by_oauth", is_flag=True, help="NAME is an e-mail of Flower's OAuth.")
@json_option()
def users_add(name: str, role: Role, by_token: bool, by_oauth: bool, as_json: bool) -> None:
    """Add the user NAME; the password is read from the terminal or standard input.

    A token goes into the header `Authorization: Bearer TOKEN`.
    """
    if by_oauth and (by_token or "@" not in name):
        raise ConfigError("--oauth is for an e-mail address, without --token")
    settings = load_settings()
    if not NAME(name):
        raise ConfigError(f"{name[:70]!r} is not a name (fix: letters, digits and . _ @ + -)")
    if name == settings.of(FlowerSettings).flower_user:
        raise ConfigError(f"{name} is the user of SCRAPER_FLOWER_USER (fix: choose another name)")
    token = ""
    if by_token:
        user, token = with_token(name, role)
    elif by_oauth:
        user = User(name, role, "", "")
    else:
        user = with_password(name, role, _read_password())
    with change_users(settings.home_dir) as stored:
        if name in stored:
            removal = quote_command("scraper users remove", name)
            raise ConfigError(f"{name} is a user already (fix: `{removal}`)")
        stored[name] = user
    if as_json:
        print_json({"name": name, "role": role} | ({"token": token} if by_token else {}))
    elif by_token:
        click.echo(token)
    else:
        click.echo(f"{name} may {role}.")


@users.command("list")
@json_option("array")
def users_list(as_json: bool) -> None:
    """Show the users and their roles."""
    stored = load_users(users_file(load_settings().home_dir))
    rows = [
        {"name": user.name, "role": user.role, "login": _describe_login(user)}
        for user in sorted(stored.values())
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(["user", "role", "login"], [list(row.values()) for row in rows])


@users.command("remove")
@click.argument("name")
@json_option()
def users_remove(name: str, as_json: bool) -> None:
    """Remove the user NAME; its password or token is refused at once."""
    with change_users(load_settings().home_dir) as stored:
        require_user(stored, name)
        del stored[name]
    if as_json:
        print_json({"name": name, "removed": True})
    else:
        click.echo(f"{name} is removed.")


@users.command("passwd")
@click.argument("name")
@json_option()
def users_passwd(name: str, as_json: bool) -> None:
    """Give the user NAME another password."""
    settings = load_settings()
    user = require_user(load_users(users_file(settings.home_dir)), name)
    if not user.salt:
        raise ConfigError(f"{name} has no password (login: {_describe_login(user)})")
    password = _read_password()
    with change_users(settings.home_dir) as stored:
        stored[name] = with_password(name, require_user(stored, name).role, password)
    if as_json:
        print_json({"name": name, "changed": True})
    else:
        click.echo(f"The password of {name} is changed.")


def _describe_login(user: User) -> str:
    if user.salt:
        return "password"
    return "token" if user.has_token else "oauth"


def _read_password() -> str:
    """Reads a password twice from a terminal, or one line from a pipe."""
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
