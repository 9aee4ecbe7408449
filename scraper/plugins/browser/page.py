"""One page in a browser: from its URL to the rendered document, within the limits of any page.

Every navigation of the main frame is held before it leaves, hops of redirects included. A forbidden
one ends the page; an allowed one waits for its permit (`before_hop`). Requests of the page to its
site's hosts (documents in frames, XHR, fetch) wait for a permit of their rate (`before_sub`);
scripts, styles and requests to other hosts do not. The page's clock stops while politeness makes it
wait, but at most for as long as a page may take.

Refuses to open windows, answer dialogs, save files or run service workers. `error` says what ended
the page early.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.async_api import Error

from scraper.domain import Fetched, Outcome
from scraper.errors import DeferredError, FetchError
from scraper.http.account_session import AccountSession
from scraper.http.page_browser import BrowserPermits
from scraper.http.policy import FetchPolicy
from scraper.http.proxy_route import ProxyRoute
from scraper.plugins.browser import steps
from scraper.plugins.browser.faults import BrowserLostError, navigation_fault
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.page_clock import PageClock
from scraper.plugins.browser.proxy import PageGrant
from scraper.rules.urls import host_of
from scraper.rules.verdict import retry_after_s
from scraper.sites.grammar import selectors

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page, Request, Response, Route

BUDGETED = frozenset({"document", "xhr", "fetch", "eventsource"})
# These resources never change a page's document.
NEVER = frozenset({"ping", "manifest", "cspviolationreport"})
# A page's resources may unpack to this many times their limit on the wire.
UNPACKED_FACTOR = 4
# The limit for the captured answers of all names together.
CAPTURED_MAX = 200
# A page that makes requests faster than they are handled would hold up the worker's other pages.
IN_FLIGHT_MAX = 1000
# A script runs again if the page navigated during it. The limit of navigations, or the deadline,
# ends a page that keeps navigating.
EVALUATE_TRIES = 60
POLL_S = 0.05
NO_FAILURES = frozenset({"net::ERR_ABORTED", "net::ERR_HTTP_RESPONSE_CODE_FAILURE"})
THROTTLED = frozenset({429, 503})
# Uses the prototype's getters, since a page may name an element `documentElement`. Returns 0 for
# the browser's own page about an address that did not answer.
_DOCUMENT = """(max => {
  if (location.protocol === 'chrome-error:') return 0;
  const of = name => Object.getOwnPropertyDescriptor(Document.prototype, name).get.call(document);
  const type = of('doctype'), root = of('documentElement');
  const text = (type ? '<!DOCTYPE ' + type.name + '>' : '') + (root ? root.outerHTML : '');
  return text.length > max ? text.length : text; })(%d)"""


@dataclass(slots=True)
class _Seen:
    """What happened so far. `hops` counts the redirects of the current navigation."""

    hops: int = 0
    navigations: int = 0
    wire_bytes: int = 0
    unpacked_bytes: int = 0
    in_flight: set[Request] = field(default_factory=set)
    quiet_since: float = 0.0
    failures: dict[str, Exception] = field(default_factory=dict)
    throttled: Response | None = None


class BrowserPage:
    """An open page. `url` is its present URL, or the one that it navigates to. `tab` is
    Playwright's page."""

    def __init__(
        self,
        policy: FetchPolicy,
        rendering: Rendering,
        permits: BrowserPermits,
        *,
        route: ProxyRoute | None,
        visitor: AccountSession | None = None,
        kill_browser: Callable[[], None],
    ) -> None:
        self.policy = policy
        self.rendering = rendering
        self.url = ""
        self.error: Exception | None = None
        self.over = asyncio.Event()
        self.main: Response | None = None
        self.clock = PageClock(policy.page_timeout_s)
        self.tab: Page
        self._cdp: CDPSession
        self._main_frame = ""
        self._world = 0
        self._kill_browser = kill_browser
        self._permits = permits
        self._route = route
        self._visitor = visitor
        self._seen = _Seen(quiet_since=monotonic())
        self._captured: dict[str, list[asyncio.Future[bytes]]] = {}
        self._patterns = [
            (name, selectors.compile_regex(text)) for name, text in rendering.responses.items()
        ]
        self._blocked = NEVER | set(rendering.block)
        self._tasks: set[asyncio.Future[Any]] = set()

    # These methods are for the proxy.

    @property
    def proxy_id(self) -> str:
        return self._route.proxy.id if self._route else ""

    def grant(self) -> PageGrant:
        return PageGrant(
            private=self.policy.private,
            proxy=self._route.proxy if self._route else None,
            connect_timeout_s=self.policy.connect_timeout_s,
            count=self._count_received,
            failed=self._seen.failures.__setitem__,
        )

    def _count_received(self, count: int) -> None:
        self._seen.wire_bytes += count
        if self._seen.wire_bytes > self.policy.body_max_bytes:
            self.fail(
                self._too_large(
                    "its resources are larger than {limit} bytes", self.policy.body_max_bytes
                )
            )

    def _too_large(self, text: str, limit: int) -> FetchError:
        words = f"{text.format(limit=limit)} (SCRAPER_BODY_MAX_BYTES, or `limits: {{body: …}}`)"
        return FetchError(Outcome.TOO_LARGE, words, url=self.url)

    def fail(self, error: Exception) -> None:
        """Ends the page. The first error counts."""
        if self.error is None:
            self.error = error
            self.over.set()
            if hasattr(self, "tab"):
                self._run_soon(self.tab.close())

    # These methods set the page up and end it.

    async def open(self, page: Page, languages: str | None = None) -> None:
        """Sets up an empty page of Playwright's. `languages`: the Accept-Language of all requests;
        Playwright itself would send documents' requests with the first language only."""
        self.tab = page
        page.set_default_timeout(self.policy.page_timeout_s * 1000)
        page.on("dialog", lambda dialog: self._run_soon(dialog.dismiss()))
        page.on("popup", lambda popup: self._run_soon(popup.close()))
        page.on(
            "crash", lambda _: self.fail(BrowserLostError("the page's renderer died", own=True))
        )
        page.on("request", self._note_request)
        page.on("requestfinished", self._note_request_end)
        page.on("requestfailed", self._note_failed_request)
        page.on("response", self._note_response)
        self._cdp = await page.context.new_cdp_session(page)
        self._cdp.on(
            "Fetch.requestPaused", lambda event: self._run_soon(self._handle_navigation(event))
        )
        self._cdp.on("Network.dataReceived", self._count_unpacked)
        await self._cdp.send(
            "Network.enable", {"maxTotalBufferSize": self.policy.body_max_bytes * 2}
        )
        pattern = {"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}
        await self._cdp.send("Fetch.enable", {"patterns": [pattern]})
        if languages is not None:
            names = ",".join(name.partition(";")[0] for name in languages.split(","))
            await self._cdp.send(
                "Emulation.setUserAgentOverride", {"userAgent": "", "acceptLanguage": names}
            )
        tree = await self._cdp.send("Page.getFrameTree")
        self._main_frame = tree["frameTree"]["frame"]["id"]

    async def end(self) -> None:
        tasks = [*self._tasks, *(body for bodies in self._captured.values() for body in bodies)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run_soon(self, work: Awaitable[Any]) -> None:
        """Runs `work` in the background until the page ends, without errors of a closing page."""

        async def quietly() -> None:
            with suppress(Error):
                await work

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # These methods handle navigations of the main frame, hop by hop.

    async def _handle_navigation(self, event: dict[str, Any]) -> None:
        url, frame = event["request"]["url"].partition("#")[0], event["frameId"]
        if frame == self._main_frame:
            try:
                await self._may_go(url, redirected="redirectedRequestId" in event)
            except (FetchError, DeferredError) as error:
                self.fail(error)
            except Exception as error:  # noqa: BLE001 - it becomes the page's error
                self.fail(error)
            if self.error is not None:
                await self._cdp.send(
                    "Fetch.failRequest",
                    {"requestId": event["requestId"], "errorReason": "BlockedByClient"},
                )
                return
        more = (
            {}
            if frame != self._main_frame
            else self._replace_headers(url, event["request"]["headers"])
        )
        await self._cdp.send("Fetch.continueRequest", {"requestId": event["requestId"], **more})

    def _replace_headers(self, url: str, own: dict[str, str]) -> dict[str, Any]:
        """Adds the site's headers for hosts of the site, and an account's for hosts where it is
        logged in."""
        site = self.policy.headers if self.belongs(host_of(url)) else {}
        added = {**site, **(self._visitor.headers_for(url) if self._visitor else {})}
        if not added:
            return {}
        names = {name.lower() for name in added}
        kept = {name: value for name, value in own.items() if name.lower() not in names}
        return {
            "headers": [{"name": name, "value": value} for name, value in {**kept, **added}.items()]
        }

    async def _may_go(self, url: str, *, redirected: bool) -> None:
        """Checks a navigation, and waits for its permit. Raises if it is forbidden. The caller
        already has the permit of the first one."""
        seen, before = self._seen, self.url
        seen.hops = seen.hops + 1 if redirected else 0
        seen.navigations += 1
        self.url = url
        if not url.startswith(("http://", "https://")):
            raise FetchError(
                Outcome.MALFORMED, "leads to a URL that is neither http nor https", url=url
            )
        limit = self.policy.redirects_max
        if seen.hops > limit or (self._permits.paid and seen.navigations > limit + 1):
            raise FetchError(
                Outcome.REDIRECT_LOOP,
                f"more than {limit} redirects (SCRAPER_REDIRECTS_MAX)",
                url=url,
            )
        if seen.navigations == 1 and self._permits.paid:
            return
        host = host_of(url)
        if (
            before
            and host != host_of(before)
            and self.policy.allowed is not None
            and not self.policy.allowed(host)
        ):
            raise FetchError(
                Outcome.OFF_SITE, f"redirects to {host}, which is not a host of the site", url=url
            )
        if self._permits.before_hop is not None:
            await self._wait_for_permit(self._permits.before_hop(url))

    def belongs(self, host: str) -> bool:
        """Returns whether a host is the page's own, or its site's."""
        return host == host_of(self.url) or (
            self.policy.allowed is not None and self.policy.allowed(host)
        )

    def owns_cookie(self, domain: str) -> bool:
        """Returns whether a cookie's domain, which has no port, is the page's or its site's."""
        domain, host = domain.lstrip("."), urlsplit(self.url).hostname or ""
        return f".{host}".endswith(f".{domain}") or (
            self.policy.allowed is not None and self.policy.allowed(domain)
        )

    # These methods handle the page's other requests.

    async def route(self, route: Route, request: Request) -> None:
        """Lets a request of the context through, or aborts it; frames and popups included."""
        with suppress(Error):
            if not await self._may_load(request):
                await route.abort("blockedbyclient")
            else:
                await route.continue_()

    async def _may_load(self, request: Request) -> bool:
        if self.error is not None:
            return False
        kind, host = request.resource_type, host_of(request.url)
        if kind in self._blocked or (kind == "document" and not self._is_own(request)):
            return False
        if kind not in BUDGETED or self._permits.before_sub is None or not self.belongs(host):
            return True
        if kind == "document" and request.frame.parent_frame is None:
            # `_handle_navigation` holds it and asks for its permits, since it sees each hop.
            return True
        try:
            await self._wait_for_permit(self._permits.before_sub(request.url))
        except (FetchError, DeferredError) as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - as for navigations
            self.fail(error)
        return self.error is None

    def _is_own(self, request: Request) -> bool:
        """Returns whether a request is this page's, and not that of a window that it opened."""
        try:
            return request.frame.page == self.tab
        except Error:
            return False

    async def _wait_for_permit(self, permit: Awaitable[None]) -> None:
        """Waits for a permit with the page's clock stopped."""
        if not await self.clock.wait_stopped(permit):
            raise FetchError(
                Outcome.TIMEOUT,
                f"its requests got no permits within {self.policy.page_timeout_s:g} s: the host's "
                "rate is too low for the page",
                url=self.url,
            )

    def _note_request(self, request: Request) -> None:
        self._seen.in_flight.add(request)
        if len(self._seen.in_flight) > IN_FLIGHT_MAX and self.error is None:
            words = f"has more than {IN_FLIGHT_MAX} requests in flight"
            self.fail(FetchError(Outcome.TOO_LARGE, words, url=self.url))
            # Closing the page takes effect only after all events that wait to be handled.
            self._kill_browser()

    def _note_request_end(self, request: Request) -> None:
        self._seen.in_flight.discard(request)
        self._seen.quiet_since = monotonic()

    def _note_failed_request(self, request: Request) -> None:
        """Ends the page if its document broke off. Leaving it for another document, or an answer
        without a body, is not a failure."""
        self._note_request_end(request)
        main = self.main
        if (
            main is not None
            and main.request == request
            and (why := request.failure or "") not in NO_FAILURES
        ):
            host = host_of(self.url)
            self.fail(
                FetchError(
                    Outcome.UNREACHABLE, f"the connection to {host} broke off: {why}", url=self.url
                )
            )

    async def wait_until(self, holds: Callable[[], Awaitable[bool]], longest_s: float) -> bool:
        """Polls until the condition holds. Returns False after `longest_s` of the page's time."""
        latest = self.clock.now() + longest_s
        while not await holds():
            if self.clock.now() >= latest or self.error is not None:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def wait_until_idle(self, quiet_s: float, longest_s: float) -> bool:
        """Waits until no request has been in flight for `quiet_s` from now on, except for streams
        of events, which do not end. Returns False after `longest_s`.

        An earlier quiet does not count: a click, or the end of loading, may have started a request
        whose event has not arrived yet.
        """
        called_at = monotonic()

        async def quiet() -> bool:
            streams = all(
                request.resource_type == "eventsource" for request in self._seen.in_flight
            )
            quiet_since = max(called_at, self._seen.quiet_since)
            return streams and monotonic() - quiet_since >= quiet_s

        return await self.wait_until(quiet, longest_s)

    # These methods handle answers.

    def _note_response(self, response: Response) -> None:
        request = response.request
        with suppress(Error):
            if request.is_navigation_request() and request.frame == self.tab.main_frame:
                if not 300 <= response.status < 400:
                    self.main = response
                return
        if (
            response.status in THROTTLED
            and request.resource_type in BUDGETED
            and self.belongs(host_of(response.url))
        ):
            self._seen.throttled = response
        if response.status != 200 or sum(map(len, self._captured.values())) >= CAPTURED_MAX:
            return
        for name, pattern in self._patterns:
            if selectors.matches_anywhere(pattern, response.url):
                self._captured.setdefault(name, []).append(asyncio.ensure_future(response.body()))

    def _count_unpacked(self, event: dict[str, Any]) -> None:
        self._seen.unpacked_bytes += int(event["dataLength"])
        limit = UNPACKED_FACTOR * self.policy.body_max_bytes
        if self._seen.unpacked_bytes > limit:
            self.fail(self._too_large("its resources unpack to more than {limit} bytes", limit))

    async def evaluate(self, expression: str) -> Any:
        """Evaluates JavaScript in an isolated world, which the page cannot reach."""
        for left in reversed(range(EVALUATE_TRIES)):
            try:
                if not self._world:
                    world = await self._cdp.send(
                        "Page.createIsolatedWorld", {"frameId": self._main_frame}
                    )
                    self._world = world["executionContextId"]
                asked = {"expression": expression, "contextId": self._world, "returnByValue": True}
                return (await self._cdp.send("Runtime.evaluate", asked))["result"].get("value")
            except Error:
                # The page has navigated, and the world ended with its document.
                self._world = 0
                if not left or self.error is not None:
                    raise
                await asyncio.sleep(POLL_S)

    # These methods fetch the whole page.

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        timeout_s = min(
            self.rendering.timeout_s or self.policy.page_timeout_s, self.policy.page_timeout_s
        )
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                self.clock.deadline = deadline
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            which = "browser.timeout" if self.rendering.timeout_s else "SCRAPER_PAGE_TIMEOUT_S"
            raise FetchError(
                Outcome.TIMEOUT,
                f"not complete within {timeout_s:g} s (page timeout: {which})",
                url=self.url,
            ) from None
        finally:
            self.clock.deadline = None

    async def fetch(self, url: str) -> Fetched:
        """Opens the URL, runs the steps, and reads the page. Raises FetchError, DeferredError,
        `BrowserLostError`."""
        self.url, began = url, monotonic()
        async with self.bounded():
            work = asyncio.ensure_future(self._load_page(url))
            over = asyncio.ensure_future(self.over.wait())
            try:
                await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
                if self.error is not None:
                    raise self.error
                status, headers, body, captured = work.result()
            finally:
                for task in (work, over):
                    task.cancel()
                await asyncio.gather(work, over, return_exceptions=True)
        throttled = self._seen.throttled
        if throttled is not None and status == 200:
            raise FetchError(
                Outcome.THROTTLED,
                f"answered {throttled.status} to a request of the page: {throttled.url[:200]}",
                url=throttled.url,
                status=throttled.status,
                retry_after_s=retry_after_s(throttled.headers, datetime.now(UTC)),
            )
        assert self.main is not None
        return Fetched(
            url=self.main.url.partition("#")[0],
            status=status,
            headers=headers,
            body=body,
            elapsed_s=monotonic() - began - self.clock.waited_s,
            redirects=self._seen.navigations - 1,
            captured=captured,
            wire_bytes=self._seen.wire_bytes,
        )

    async def _load_page(
        self, url: str
    ) -> tuple[int, dict[str, str], bytes, dict[str, tuple[bytes, ...]]]:
        try:
            await self.tab.goto(url, wait_until="commit", timeout=0)
        except Error as error:
            if self.error is not None:
                raise self.error from None
            if not navigation_is_empty(error) or self.main is None:
                raise navigation_fault(
                    error, self._seen.failures, self.url, self.policy, self.main
                ) from None
            return self.main.status, _headers_of(self.main), b"", {}
        await steps.prepare_page(self)
        assert self.main is not None
        headers = _headers_of(self.main)
        if "html" in headers.get("content-type", "html"):
            body = await self._read_document()
            headers["content-type"] = "text/html; charset=utf-8"
        else:
            body = await self.main.body()
        if len(body) > self.policy.body_max_bytes:
            raise self._too_large(
                "its document is larger than {limit} bytes", self.policy.body_max_bytes
            )
        return self.main.status, headers, body, await self._read_captured()

    async def _read_document(self) -> bytes:
        """Serializes the present document."""
        text = await self.evaluate(_DOCUMENT % self.policy.body_max_bytes)
        if text == 0:
            failed = Error("net::ERR_FAILED")
            raise navigation_fault(failed, self._seen.failures, self.url, self.policy, None)
        if not isinstance(text, str):
            raise self._too_large(
                "its document is larger than {limit} bytes", self.policy.body_max_bytes
            )
        return text.encode("utf-8", "replace")

    async def _read_captured(self) -> dict[str, tuple[bytes, ...]]:
        answers: dict[str, tuple[bytes, ...]] = {}
        for name, bodies in self._captured.items():
            got = await asyncio.gather(*bodies, return_exceptions=True)
            answers[name] = tuple(body for body in got if isinstance(body, bytes))
        return answers


def navigation_is_empty(error: Error) -> bool:
    """Returns whether the answer has no body, for which browsers show an error page."""
    return "ERR_HTTP_RESPONSE_CODE_FAILURE" in str(error)


def _headers_of(response: Response) -> dict[str, str]:
    dropped = ("set-cookie", "content-encoding", "content-length", "transfer-encoding")
    return {
        name.lower(): value
        for name, value in response.headers.items()
        if name.lower() not in dropped
    }
