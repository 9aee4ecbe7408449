"""Messages that come twice, late, or after their crawl has ended. None of them may change anything.

Copies are taken of the raw queue entries where there are some to be seen (workers take them within
a millisecond), and made again, without an expiry, for the leases that there are: a lease's id is all
that a message says.
"""

from __future__ import annotations

from celery import Celery

from scraper.rules.routing import CAPABILITIES
from tests.acceptance.chaos.servers import US, Servers

# kombu's, between a queue's name and a priority
SEPARATOR = "\x06\x16"
COPIES_MAX = 200
LEASES = "SELECT id::text, queue, kind FROM leases"
TASKS = {"product": "scraper.tasks.fetch_products"}
OTHER_TASK = "scraper.tasks.fetch_listings"

Entry = tuple[str, bytes]
Lease = tuple[str, str, str]


def entries(servers: Servers) -> list[Entry]:
    """The raw entries of the page queues, of every priority: (key, entry)."""
    with servers.valkey() as client:
        keys = [
            key
            for queue in CAPABILITIES
            for key in (queue, *client.scan_iter(f"{queue}{SEPARATOR}*"))
        ]
        names = [key.decode() if isinstance(key, bytes) else key for key in keys]
        return [(name, entry) for name in names for entry in client.lrange(name, 0, -1)]


def put_back(servers: Servers, copies: list[Entry]) -> None:
    with servers.valkey() as client:
        for key, entry in copies:
            client.lpush(key, entry)


def leases(servers: Servers) -> list[Lease]:
    """(id, queue, kind) of those there are now."""
    with servers.connect() as connection:
        return [
            (str(id_), str(queue), str(kind))
            for id_, queue, kind in connection.execute(LEASES).fetchall()
        ]


def application(servers: Servers) -> Celery:
    """A separate one, so that its connections differ from the application's."""
    app = Celery(US, broker=servers.settings.celery_broker_url, set_as_current=False)
    app.conf.broker_transport_options = {
        "socket_timeout": 5,
        "socket_connect_timeout": 3,
        "client_name": US,
    }
    return app


def send(servers: Servers, found: list[Lease], times: int = 1) -> None:
    """A message for each, as dispatch sends them, but without an expiry."""
    app = application(servers)
    with app.producer_pool.acquire(block=True, timeout=5) as producer:
        for lease_id, queue, kind in found * times:
            task = TASKS.get(kind, OTHER_TASK)
            app.send_task(
                task, kwargs={"lease_id": lease_id}, queue=queue, producer=producer, retry=False
            )
    app.close()
