"""scrapy-redis: the same spider, its queue and its filter of duplicates in a Redis of their own
database.

Its README's settings: its scheduler and its dupefilter. Of the queues it offers, FifoQueue: one
command a request, where the default PriorityQueue sends a transaction of two.
"""

from __future__ import annotations

from common import REDIS_DB, REDIS_SOCKET
from scrapy_spider import SETTINGS, run

run(
    SETTINGS
    | {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
        "REDIS_URL": f"unix://{REDIS_SOCKET}?db={REDIS_DB}",
    }
)
