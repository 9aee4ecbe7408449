"""Prepares each statement at once, in a process that imports this module
(`celery worker -I tests.support.prepared`). Otherwise psycopg does so after five executions."""

from __future__ import annotations

from psycopg._preparing import PrepareManager

PrepareManager.prepare_threshold = 0
