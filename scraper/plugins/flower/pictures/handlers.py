"""The handler of products' pictures. A request names a product, never an address, and its answer
cannot be anything but a raster image."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
import tornado.web

from scraper.errors import ConfigError, DeferredError, NotFoundError
from scraper.frontier import hosts
from scraper.plugins.flower.handlers.base import ApiHandler
from scraper.plugins.flower.handlers.products import SITE
from scraper.plugins.flower.openapi.parameters import Parameter, read_all
from scraper.plugins.flower.pictures.fetching import PictureFetcher
from scraper.plugins.flower.pictures.store import ProductPicture, Stored, find_kept, look_up, store
from scraper.plugins.flower.reader import PostgresReader, UnavailableError

# Pictures that are being fetched, or wait for that.
WAITING_MAX = 30
LATER, LATER_S = "the shop's host has no request left now; try again", 5.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Content-Disposition": "inline",
    "Cache-Control": "private, max-age=86400",
}


class Pictures:
    """The pictures of one Flower process. Looks at the same one share a request."""

    def __init__(self, reader: PostgresReader) -> None:
        self._reader = reader
        self._fetcher: PictureFetcher | None = None
        self._under_way: dict[tuple[int, str], asyncio.Task[Stored]] = {}

    async def fetch(self, wanted: ProductPicture) -> Stored:
        """Requests a picture that is not kept, and keeps it. Raises `ConfigError` where nothing may
        be requested, and `DeferredError`."""
        if wanted.paused:
            raise ConfigError("the site is paused, and nothing is requested from it")
        key = (wanted.site_id, wanted.url)
        if key not in self._under_way:
            if len(self._under_way) >= WAITING_MAX:
                raise DeferredError(LATER_S)
            self._under_way[key] = task = asyncio.create_task(self._fetch_and_store(wanted))
            task.add_done_callback(lambda _: self._under_way.pop(key))
        return await asyncio.shield(self._under_way[key])

    async def _fetch_and_store(self, wanted: ProductPicture) -> Stored:
        reader = self._reader
        # `wanted` may be older than a request for the picture that has ended since.
        kept = await reader.read_now(
            lambda connection: find_kept(connection, wanted.site_id, wanted.url)
        )
        if kept is not None:
            return kept
        # It belongs to the loop, which runs by now.
        self._fetcher = self._fetcher or PictureFetcher(reader.settings)
        overrides = await reader.read("overrides", hosts.read_overrides)
        result = await self._fetcher.fetch(wanted, overrides)

        def keep(engine: sa.Engine) -> None:
            with engine.begin() as connection:
                store(connection, wanted, result)

        await reader.run(keep, reader.engine)
        reader.forget()
        return result


class PictureApi(ApiHandler):
    """A product's picture, fetched from its shop at the first look and then kept."""

    PARAMETERS = (SITE, Parameter("id", "the product's id", required=True))
    ANSWER_TYPE = "image/*"
    pictures: Pictures

    def initialize(
        self, reader: PostgresReader, version: str, pictures: Pictures | None = None
    ) -> None:
        super().initialize(reader, version)
        self.pictures = pictures or Pictures(reader)

    async def get(self) -> None:
        if self.request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise tornado.web.HTTPError(403, "no page of another site may fetch pictures")
        site, product = read_all(self, self.PARAMETERS).values()
        wanted = await self.read_or_fail(
            ("picture", site, product), lambda connection: look_up(connection, site, product)
        )
        if wanted is None:
            return
        try:
            result = wanted.kept or await self.pictures.fetch(wanted)
        except (ConfigError, UnavailableError) as error:
            self.answer_error(error)
        except DeferredError:
            self.answer_error(UnavailableError(LATER))
        else:
            self.answer_picture(result)

    def answer_picture(self, result: Stored) -> None:
        if result.body is None or result.media_type is None:
            # A browser would report an error for each picture that a shop does not have.
            if self.request.headers.get("Sec-Fetch-Dest") == "image":
                self.set_status(204)
                self.finish()
                return
            self.answer_error(NotFoundError(f"no picture: {result.problem}"))
            return
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Type", result.media_type)
        self.finish(result.body)
