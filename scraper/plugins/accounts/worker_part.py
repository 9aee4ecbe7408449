"""The plug-in `accounts` in a worker: its pool of logged-in accounts."""

from __future__ import annotations

from scraper.plugin import WorkerPart
from scraper.plugins.accounts.file import AccountFile
from scraper.plugins.accounts.pool import AccountPool
from scraper.plugins.accounts.settings import AccountsSettings
from scraper.plugins.accounts.store import LoginStore
from scraper.worker.host import WorkerHost


class AccountsPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self.sessions = self._pool = AccountPool(
            fetcher=host.fetcher,
            pool=host.proxies,
            limiters=host.limiters,
            file=AccountFile(host.settings.of(AccountsSettings).accounts),
            store=LoginStore(host.redis),
            settings=host.settings,
            rng=host.rng,
        )

    async def run(self) -> None:
        await self._pool.run()

    async def aclose(self, within_s: float) -> None:
        await self._pool.close(within_s)
