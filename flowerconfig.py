"""Flower's settings: `celery -A scraper flower` reads this file. Loopback only, and behind a login."""

from scraper import flower_login, settings

_login = flower_login.get(settings.load())

address = "127.0.0.1"
port = 5555
basic_auth = [f"{_login.user}:{_login.password}"]
max_tasks = 2000
purge_offline_workers = 300
