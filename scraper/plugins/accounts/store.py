"""What the fleet knows of its accounts, in Redis: who is logged in, since when, who is logging in,
who had better not try.

One atomic script a decision, on the server's clock, so that a thousand logged-out pages are one
login. Two keys an account:

    scraper:login:SITE:ACCOUNT       hash
        generation, sealed, key      the login that counts (when it was made, in us), what it left, sealed, and by which key
        revision, expires            how often its cookies were written since; when it runs out (us, 0: nobody knows)
        proven, out                  generations: a page was good with it; every page so far was logged out
        token, locked, tried         who logs in at the moment, until when at the longest; when somebody last began to
        rest, kind, why, quarantined, n:KIND, since    no try before; the reason, for people; failures in a row, from when on
        secret, changed              mark of what the secrets file says, and when it last was another one
        logins, failures             how many there were
        forgotten                    when an operator had it forgotten: older logins are not written back
    scraper:login:out:SITE:ACCOUNT   hash  page -> TIMES:GENERATION:AT  with how many generations it was logged out, the last

Nothing is in clear that the secrets file or the site gave. A Redis that loses its memory loses no
login: each process writes back what it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError

from scraper.errors import DeferredError
from scraper.plugins.accounts.policy import (
    CHANGE_EVERY_S,
    PATIENCE_S,
    QUARANTINE_S,
    RULES,
    Trouble,
)

PREFIX = "scraper:login:"
KEPT_S = 14 * 86_400
OUT_KEPT_S = 86_400
PAGES_MAX = 20_000
AWAY_S = 5.0
WHY_CHARS = 300
STATES = ("logged in", "logging in", "resting", "quarantine", "not yet")

_COMMON = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local k = KEYS[1]
local function us(n) return string.format('%.0f', n) end
local function num(name) return tonumber(redis.call('HGET', k, name) or '0') end
local function answer(word) return {word, us(now), redis.call('HGETALL', k)} end
local function well()
  redis.call('HDEL', k, 'rest', 'kind', 'why', 'quarantined', 'since', 'n:rejected', 'n:unavailable', 'n:misfit')
end
local function punish(kind, why, rests, tries, quarantine, patience)
  local n, step, i = redis.call('HINCRBY', k, 'n:' .. kind, 1), 0, 0
  if not redis.call('HGET', k, 'since') then redis.call('HSET', k, 'since', us(now)) end
  for each in string.gmatch(rests, '[^,]+') do
    i = i + 1
    if i <= n then step = tonumber(each) end
  end
  local out = (tries > 0 and n >= tries) or (kind == 'unavailable' and now - num('since') > patience)
  if out then step = quarantine end
  redis.call('HSET', k, 'rest', us(now + step), 'kind', kind, 'why', why, 'quarantined', out and 1 or 0)
end
"""

READ = _COMMON + "return answer('read')"

# ARGV  1 token  2 the generation that was seen to be over, 0 for none  3 time to live of the lock  4 every  5 force  6 keep_s
#       7 how long a changed secret is the last one  8… marks of the secret, one for each key of the caller
# A mark of a key that the caller does not have says nothing.
BEGIN = (
    _COMMON
    + """
local secret, known, changed = redis.call('HGET', k, 'secret'), false, false
if secret then
  local id = string.match(secret, '^[^:]*')
  for i = 8, #ARGV do
    if ARGV[i] == secret then known = true
    elseif string.match(ARGV[i], '^[^:]*') == id then changed = true end
  end
end
if changed and not known and num('changed') + tonumber(ARGV[7]) < now then
  well()
  redis.call('HDEL', k, 'generation', 'sealed', 'proven', 'out', 'n:useless', 'tried')
  redis.call('HSET', k, 'changed', us(now), 'secret', ARGV[8])
end
if ARGV[5] == '0' then
  local generation = redis.call('HGET', k, 'generation') or '0'
  if generation ~= '0' and generation ~= ARGV[2] then return answer('known') end
  if num('rest') > now then return answer('resting') end
  if num('tried') + tonumber(ARGV[4]) > now then return answer('soon') end
end
if num('locked') > now then return answer('busy') end
redis.call('HSET', k, 'token', ARGV[1], 'locked', us(now + tonumber(ARGV[3])), 'tried', us(now))
if not secret then redis.call('HSET', k, 'secret', ARGV[8]) end
redis.call('EXPIRE', k, ARGV[6])
return answer('yours')
"""
)

# ARGV  1 token  2 sealed  3 lasts, in us, 0 if nobody knows  4 keep_s  5 mark of the secret.
STORE = (
    _COMMON
    + """
if redis.call('HGET', k, 'token') ~= ARGV[1] then return answer('lost') end
well()
redis.call('HDEL', k, 'token', 'locked')
local expires = tonumber(ARGV[3])
if expires > 0 then expires = now + expires end
redis.call('HSET', k, 'generation', us(now), 'sealed', ARGV[2], 'revision', 0, 'expires', us(expires), 'secret', ARGV[5])
redis.call('HINCRBY', k, 'logins', 1)
redis.call('EXPIRE', k, ARGV[4])
return answer('stored')
"""
)

# ARGV  1 token  2 kind, "" to let go of the lock as if nothing had been tried  3 why  4 rests  5 tries  6 quarantine
#       7 patience.
FAIL = (
    _COMMON
    + """
if redis.call('HGET', k, 'token') ~= ARGV[1] then return answer('lost') end
redis.call('HDEL', k, 'token', 'locked')
if ARGV[2] == '' then
  redis.call('HDEL', k, 'tried')
else
  redis.call('HINCRBY', k, 'failures', 1)
  punish(ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
end
return answer('failed')
"""
)

# A page that was logged out with many generations says nothing of one: it may be so whatever one does.
# KEYS[2] the pages. ARGV  1 generation  2 page  3 pages at the most  4 keep_s of them  5 why  6 rests  7 tries  8 quarantine
#       9 whether it is certain that the login is over
# Answers with two numbers more: with how many generations the page was logged out, and how long ago it last was with this one (-1: not).
OUT = (
    _COMMON
    + """
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then redis.call('DEL', KEYS[2]) end
local before = redis.call('HGET', KEYS[2], ARGV[2])
local times, ago = 1, -1
if before then
  local n, last, at = string.match(before, '(%d+):(%d+):(%d+)')
  if last == ARGV[1] then times, ago = tonumber(n), now - tonumber(at) else times = tonumber(n) + 1 end
end
redis.call('HSET', KEYS[2], ARGV[2], times .. ':' .. ARGV[1] .. ':' .. us(now))
redis.call('EXPIRE', KEYS[2], ARGV[4])
local told = redis.call('HGET', k, 'proven') == ARGV[1] or redis.call('HGET', k, 'out') == ARGV[1]
if ARGV[9] == '1' and times <= 2 and redis.call('HGET', k, 'generation') == ARGV[1] and not told then
  redis.call('HSET', k, 'out', ARGV[1])
  punish('useless', ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), 0)
end
local counted = answer('counted')
counted[4], counted[5] = times, us(ago)
return counted
"""
)

PROVE = (
    _COMMON
    + """
if redis.call('HGET', k, 'generation') ~= ARGV[1] then return answer('other') end
redis.call('HSET', k, 'proven', ARGV[1])
redis.call('HDEL', k, 'n:useless')
if redis.call('HGET', k, 'kind') == 'useless' then well() end
return answer('proven')
"""
)

# ARGV  1 generation  2 revision  3 sealed.
SAVE = (
    _COMMON
    + """
if redis.call('HGET', k, 'generation') ~= ARGV[1] or redis.call('HGET', k, 'revision') ~= ARGV[2] then
  return answer('other')
end
redis.call('HSET', k, 'sealed', ARGV[3])
redis.call('HINCRBY', k, 'revision', 1)
return answer('saved')
"""
)

# ARGV  1 generation  2 sealed  3 expires, by the server's clock  4 keep_s  5 mark of the secret  6
# proven.
RESTORE = (
    _COMMON
    + """
if redis.call('HGET', k, 'generation') then return answer('other') end
if num('forgotten') > tonumber(ARGV[1]) then return answer('forgotten') end
redis.call('HSET', k, 'generation', ARGV[1], 'sealed', ARGV[2], 'revision', 0, 'expires', ARGV[3], 'secret', ARGV[5])
if ARGV[6] == '1' then redis.call('HSET', k, 'proven', ARGV[1]) end
redis.call('EXPIRE', k, ARGV[4])
return answer('restored')
"""
)

# KEYS[2] the pages. ARGV  1 keep_s. What stays is the word that it was meant so: nobody is to
# restore it.
FORGET = (
    _COMMON
    + """
local there = redis.call('HEXISTS', k, 'generation') + redis.call('HEXISTS', k, 'tried') + redis.call('HEXISTS', k, 'rest')
redis.call('DEL', k, KEYS[2])
redis.call('HSET', k, 'forgotten', us(now))
redis.call('EXPIRE', k, ARGV[1])
return there
"""
)


class Begun(StrEnum):
    """Whether a login may begin, as the script BEGIN says it."""

    # It is the caller's: they log in, and say how it went.
    YOURS = "yours"
    # There is a later login than the one that was seen to be over.
    LATER = "known"
    # It failed, and rests.
    RESTING = "resting"
    # The last one was tried just now.
    SOON = "soon"
    # Somebody else logs in.
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of an account. Times are seconds from now."""

    generation: int = 0
    sealed: bytes = b""
    revision: int = 0
    expires_us: int = 0
    expires_in_s: float | None = None
    locked_s: float = 0.0
    tried_ago_s: float | None = None
    rest_s: float = 0.0
    quarantined: bool = False
    kind: str = ""
    why: str = ""
    proven: bool = False
    logins: int = 0
    failures: int = 0
    age_s: float | None = None

    @property
    def state(self) -> str:
        """One of STATES."""
        if self.quarantined:
            return "quarantine"
        if self.locked_s:
            return "logging in"
        if self.rest_s:
            return "resting"
        return "logged in" if self.generation else "not yet"

    @property
    def known(self) -> bool:
        """False where nobody has tried to log in, or an operator had it forgotten."""
        return bool(self.generation or self.failures or self.locked_s)


class LoginStore:
    """The fleet's knowledge, as one process asks for it. Raises `DeferredError` where Redis is
    away."""

    def __init__(self, client: aredis.Redis) -> None:
        self._scripts = {
            name: client.register_script(text)
            for name, text in (
                ("read", READ),
                ("begin", BEGIN),
                ("store", STORE),
                ("fail", FAIL),
                ("out", OUT),
                ("prove", PROVE),
                ("save", SAVE),
                ("restore", RESTORE),
            )
        }

    async def read(self, site: str, account: str) -> Standing:
        return _standing(await self._ask("read", site, account, []))

    async def begin(
        self,
        site: str,
        account: str,
        token: str,
        *,
        seen: int,
        lock_s: float,
        every_s: float,
        marks: Sequence[str],
        force: bool = False,
    ) -> tuple[Begun, Standing]:
        """Whether a login may begin. `seen` is the one that was seen to be over."""
        args = [
            token,
            seen,
            _us(lock_s),
            _us(every_s),
            int(force),
            KEPT_S,
            _us(CHANGE_EVERY_S),
            *marks,
        ]
        answer = await self._ask("begin", site, account, args)
        return Begun(answer[0].decode()), _standing(answer)

    async def store(
        self, site: str, account: str, token: str, sealed: bytes, lasts_s: float | None, mark: str
    ) -> Standing | None:
        """A new generation; None where somebody else took over meanwhile."""
        args = [token, sealed, _us(lasts_s or 0.0), KEPT_S, mark]
        answer = await self._ask("store", site, account, args)
        return _standing(answer) if answer[0] == b"stored" else None

    async def fail(
        self, site: str, account: str, token: str, kind: Trouble | None, why: str
    ) -> Standing:
        """The login did not work; with no `kind` it was not tried."""
        rule = RULES[kind or Trouble.UNAVAILABLE]
        args = [
            token,
            kind or "",
            why[:WHY_CHARS],
            _ladder(rule.rests_s),
            rule.tries,
            _us(QUARANTINE_S),
            _us(PATIENCE_S),
        ]
        return _standing(await self._ask("fail", site, account, args))

    async def out(
        self, site: str, account: str, generation: int, page_id: int, why: str, *, certain: bool
    ) -> tuple[int, float | None, Standing]:
        """A page was logged out with that generation: with how many it was so far, how many seconds
        ago it last was with this one, and how the account stands. `certain`: the login is over, and
        useless if nobody has proven it."""
        rule = RULES[Trouble.USELESS]
        args = [
            *(
                generation,
                page_id,
                PAGES_MAX,
                OUT_KEPT_S,
                why[:WHY_CHARS],
                _ladder(rule.rests_s),
                rule.tries,
            ),
            *(_us(QUARANTINE_S), int(certain)),
        ]
        answer = await self._ask("out", site, account, args, out_of(site, account))
        times, ago = map(int, answer[3:])
        return times, None if ago < 0 else ago / 1e6, _standing(answer)

    async def prove(self, site: str, account: str, generation: int) -> Standing:
        return _standing(await self._ask("prove", site, account, [generation]))

    async def save(
        self, site: str, account: str, generation: int, revision: int, sealed: bytes
    ) -> Standing | None:
        """Its cookies; None where somebody has written them since that revision."""
        answer = await self._ask("save", site, account, [generation, revision, sealed])
        return _standing(answer) if answer[0] == b"saved" else None

    async def restore(
        self,
        site: str,
        account: str,
        generation: int,
        sealed: bytes,
        expires_us: int,
        mark: str,
        *,
        proven: bool,
    ) -> Standing:
        """Writes back what Redis has lost, if nobody has. Where an operator had it forgotten, there
        is no generation afterwards."""
        args = [generation, sealed, expires_us, KEPT_S, mark, int(proven)]
        return _standing(await self._ask("restore", site, account, args))

    async def _ask(
        self, name: str, site: str, account: str, args: Sequence[Any], *more: str
    ) -> Sequence[Any]:
        """A script's answer: its word, the server's clock, the account's fields, and what else."""
        try:
            keys = [key_of(site, account), *more]
            answer: Sequence[Any] = await self._scripts[name](keys=keys, args=list(args))
            return answer
        except RedisError as error:
            raise DeferredError(AWAY_S) from error


def key_of(site: str, account: str) -> str:
    return f"{PREFIX}{site}:{account}"


def out_of(site: str, account: str) -> str:
    return f"{PREFIX}out:{site}:{account}"


def read_now(client: redis.Redis, site: str, account: str) -> Standing:
    """For people."""
    return _standing(client.register_script(READ)(keys=[key_of(site, account)]))


def read_all(client: redis.Redis) -> dict[tuple[str, str], Standing]:
    """(site, account) -> how it stands, of all that Redis knows something of: their states, without
    what their logins left, in one round trip."""
    accounts, fields = (
        known_accounts(client),
        (b"generation", b"locked", b"rest", b"quarantined", b"failures"),
    )
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        for account in accounts:
            pipe.hmget(key_of(*account), *fields)
        (seconds, microseconds), *values = pipe.execute()
    now = seconds * 1_000_000 + microseconds
    return {
        account: _standing(
            (
                "read",
                now,
                [each for pair in zip(fields, row, strict=True) if pair[1] for each in pair],
            )
        )
        for account, row in zip(accounts, values, strict=True)
    }


def known_accounts(client: redis.Redis) -> list[tuple[str, str]]:
    """(site, account) of all that Redis knows something of."""
    keys = []
    for key in client.scan_iter(match=f"{PREFIX}*", count=1000):
        site, _, account = key.decode().removeprefix(PREFIX).partition(":")
        # A site's name has none, nor has an account's.
        if ":" not in account:
            keys.append((site, account))
    return sorted(keys)


def forget(client: redis.Redis, site: str, account: str) -> bool:
    """True where there was something."""
    return bool(
        client.register_script(FORGET)(
            keys=[key_of(site, account), out_of(site, account)], args=[OUT_KEPT_S]
        )
    )


def _standing(answer: Sequence[Any]) -> Standing:
    _, at, flat = answer[:3]
    now = int(at)
    fields = {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}

    def number(name: str) -> int:
        return int(float(fields.get(name, b"0")))

    generation, expires = number("generation"), number("expires")
    return Standing(
        generation=generation,
        sealed=fields.get("sealed", b""),
        revision=number("revision"),
        expires_us=expires,
        expires_in_s=(expires - now) / 1e6 if expires else None,
        locked_s=max(0.0, (number("locked") - now) / 1e6),
        tried_ago_s=(now - number("tried")) / 1e6 if "tried" in fields else None,
        rest_s=max(0.0, (number("rest") - now) / 1e6),
        quarantined=fields.get("quarantined") == b"1" and number("rest") > now,
        kind=fields.get("kind", b"").decode(),
        why=fields.get("why", b"").decode("utf-8", "replace"),
        proven=generation != 0 and number("proven") == generation,
        logins=number("logins"),
        failures=number("failures"),
        age_s=(now - generation) / 1e6 if generation else None,
    )


def _ladder(seconds: Sequence[float]) -> str:
    return ",".join(str(_us(each)) for each in seconds)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
