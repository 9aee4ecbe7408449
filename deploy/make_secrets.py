"""Writes the secrets that docker-compose.yml and the Kubernetes example read, a file each: `make
secrets`.

    python3 deploy/make_secrets.py [FOLDER] [--postgres HOST] [--redis HOST] [--rabbitmq HOST]

Files that are there stay as they are, so that your own may be put there first; passwords are
random, and quoted where they become part of an address. After changing a password remove the files
that hold it too, and type it again.

The folder is private (0700). The files in it are not: containers read them as users of their own
(PostgreSQL's, Valkey's, ours), and Docker gives a mounted file the mode that it has here. Needs
nothing but Python.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

PASSWORDS = (
    "postgres_password",
    "redis_password",
    "rabbitmq_password",
    "flower_password",
    "grafana_password",
    "secret_key",
)
USER = "scraper"


def addresses(password: dict[str, str], postgres: str, redis: str, rabbitmq: str) -> dict[str, str]:
    """What is made of passwords: a file's name, and its text."""
    quoted = {name: quote(value, safe="") for name, value in password.items()}
    rabbitmq_conf = (
        # for a volume that is new
        f"default_user = {USER}\ndefault_pass = {password['rabbitmq_password']}\n"
    )
    # PgBouncer wants a quote within twice.
    postgres_password = password["postgres_password"].replace('"', '""')
    return {
        "database_url": f"postgresql://{USER}:{quoted['postgres_password']}@{postgres}:5432/{USER}",
        "redis_url": f"redis://:{quoted['redis_password']}@{redis}:6379/0",
        "broker_url": f"amqp://{USER}:{quoted['rabbitmq_password']}@{rabbitmq}:5672//",
        "rabbitmq.conf": rabbitmq_conf,
        "userlist.txt": f'"{USER}" "{postgres_password}"\n',
    }


def write(
    folder: Path, postgres: str = "postgres", redis: str = "redis", rabbitmq: str = "rabbitmq"
) -> list[str]:
    """Makes what is missing, and returns the names of what was made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    made = [name for name in PASSWORDS if _new(folder / name, secrets.token_hex(24))]
    password = {
        name: (folder / name).read_text(encoding="utf-8").rstrip("\r\n") for name in PASSWORDS
    }
    # its configuration knows no quotes
    if not re.fullmatch(r"[\w.~-]+", password["rabbitmq_password"], re.ASCII):
        raise ValueError(
            f"{folder / 'rabbitmq_password'}: letters, digits and . _ ~ - alone, please"
        )
    texts = addresses(password, postgres, redis, rabbitmq)
    return made + [name for name, text in texts.items() if _new(folder / name, text)]


def _new(path: Path, text: str) -> bool:
    """Writes a file unless it is there; whole or not at all."""
    if path.exists():
        return False
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text, encoding="utf-8")
    half.chmod(0o644)
    half.rename(path)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Writes the secrets that are missing, a file each."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path("secrets"))
    for name in ("postgres", "redis", "rabbitmq"):
        parser.add_argument(
            f"--{name}", default=name, metavar="HOST", help="where it is, as the others see it"
        )
    given = vars(parser.parse_args())
    folder = given.pop("folder")
    try:
        made = write(folder, **given)
    except OSError as error:
        print(f"{error.filename or folder}: {error.strerror}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{folder}: " + (f"made {', '.join(made)}" if made else "all there, nothing was changed"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
