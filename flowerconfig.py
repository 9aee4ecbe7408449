"""Flower's settings: `celery -A scraper flower` reads this file, from whichever folder.

The login and the address are `scraper.plugins.flower.guard`'s. A `flowerconfig.py` of the folder's
own is read last, and wins.
"""

from pathlib import Path

from scraper import settings
from scraper.plugins.flower import tab

tab.install(settings.load())

port = 5555
max_tasks = 2000
purge_offline_workers = 300

_own = Path("flowerconfig.py")
if _own.exists() and not _own.samefile(__file__):
    exec(compile(_own.read_bytes(), str(_own), "exec"))  # noqa: S102 - as Flower does with it
