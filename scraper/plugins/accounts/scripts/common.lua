-- Functions that the other scripts share; each is sent behind these.
--
-- KEYS[1] scraper:login:SITE:ACCOUNT, a hash. Times are microseconds of the server's clock.
--   generation          when the current login was made; 0 or absent: the account is not logged in
--   sealed              the cookies and headers of that login, encrypted
--   revision            how often its cookies were written since
--   expires             when it runs out; 0 if unknown
--   proven              the last generation that fetched a good page
--   out                 the last generation whose pages were all logged out
--   token, locked       the process that logs in, and when its lock expires
--   tried               when a process last began to log in
--   rest                no login begins before this time
--   kind, why           the last failure, for operators
--   quarantined         1 after too many failures
--   n:KIND, since       failures of a kind in a row; since when there are any
--   secret, changed     KEY:MARK of the account's entry in the secrets file; when it last changed
--   logins, failures    totals
--   forgotten           when an operator had it forgotten: older logins are not restored
--
-- Nothing that the secrets file or the site gave is stored in clear.
--
-- Every script returns {word, now, the hash, a key that lost something that no script wrote, or ''}.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local account = KEYS[1]
-- What no script wrote counts as lost: a key of another type, too many or too large fields, a field
-- that is not a number, a rest or a lock that would last for years, and an event that is yet to
-- come (an hour is for clocks of replaced servers).
local foreign = ''
local function drop(key, field)
  if field then redis.call('HDEL', key, field) else redis.call('DEL', key) end
  foreign = key
end
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'hash' and kind ~= 'none' then drop(key) end
end
if redis.call('HLEN', account) > 50 then drop(account) end
for _, field in ipairs(redis.call('HKEYS', account)) do
  if redis.call('HSTRLEN', account, field) > 1000000 then drop(account, field) end
end
local NUMBERS = {'rest', 'locked', 'generation', 'proven', 'out', 'tried', 'since', 'changed',
  'forgotten', 'revision', 'expires', 'logins', 'failures', 'n:rejected', 'n:unavailable',
  'n:misfit', 'n:useless'}
for i, text in ipairs(redis.call('HMGET', account, unpack(NUMBERS))) do
  local valid = text and #text <= 16 and string.match(text, '^%d+$')
  local latest = i <= 2 and now + 90 * 86400000000 or i <= 9 and now + 3600000000 or 1e16
  if text and not (valid and tonumber(text) <= latest) then
    drop(account, NUMBERS[i])
  end
end
local function us(n) return string.format('%.0f', n) end
local function number(name) return tonumber(redis.call('HGET', account, name) or '0') end
local function reply(word)
  return {word, us(now), redis.call('HGETALL', account), foreign}
end

local function clear_failures()
  redis.call('HDEL', account, 'rest', 'kind', 'why', 'quarantined', 'since',
    'n:rejected', 'n:unavailable', 'n:misfit')
end

-- `rests` are the rests after the first failure, the second and so on, with commas between them.
-- `tries` in a row end in quarantine; an unavailable host does after `patience`.
local function record_failure(kind, why, rests, tries, quarantine, patience)
  local failures, rest, i = redis.call('HINCRBY', account, 'n:' .. kind, 1), 0, 0
  if not redis.call('HGET', account, 'since') then
    redis.call('HSET', account, 'since', us(now))
  end
  for step in string.gmatch(rests, '[^,]+') do
    i = i + 1
    if i <= failures then rest = tonumber(step) end
  end
  local quarantined = (tries > 0 and failures >= tries)
    or (kind == 'unavailable' and now - number('since') > patience)
  if quarantined then rest = quarantine end
  redis.call('HSET', account, 'rest', us(now + rest), 'kind', kind, 'why', why,
    'quarantined', quarantined and 1 or 0)
end
