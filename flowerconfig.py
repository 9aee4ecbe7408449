"""Flower's settings: `celery -A scraper flower` reads this file. Loopback only, behind a login, and
with a Crawls tab."""

from scraper import settings
from scraper.infra import flower_login
from scraper.monitor import tab

_settings = settings.load()
_login = flower_login.get(_settings)
tab.install(_settings)

address = "127.0.0.1"
port = 5555
basic_auth = [f"{_login.user}:{_login.password}"]
max_tasks = 2000
purge_offline_workers = 300
