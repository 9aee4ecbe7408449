# One image for every process of this project; with `--target browser` one that has Chromium too, for `-Q browser`.
FROM python:3.12-slim-trixie AS base
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin scraper
RUN pip install --no-cache-dir --disable-pip-version-check 'celery-scraper[accounts,alerts,archive,impersonate,metrics,s3]==@VERSION@'
WORKDIR /app
COPY sites sites
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    SCRAPER_HOME=/tmp/scraper SCRAPER_SITES=/app/sites SCRAPER_HEARTBEAT=/tmp/alive
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=1m --retries=4 \
    CMD find "$SCRAPER_HEARTBEAT" -newermt '-30 seconds' | grep -q .

FROM base AS browser
RUN apt-get update \
    && apt-get install --yes --no-install-recommends chromium fonts-liberation tini \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --disable-pip-version-check 'celery-scraper[accounts,alerts,archive,browser,impersonate,metrics,s3]==@VERSION@'
ENV SCRAPER_CHROMIUM=/usr/bin/chromium
USER 10001:10001
ENTRYPOINT ["tini", "-s", "--"]
CMD ["celery", "-A", "scraper", "worker", "-Q", "browser"]

FROM base AS app
USER 10001:10001
CMD ["celery", "-A", "scraper", "worker", "-Q", "datacenter"]
