-- Records a page that was logged out. Needs common.lua, which describes KEYS[1] and the reply.
--
-- KEYS[2] scraper:login:out:SITE:ACCOUNT, a hash that expires a day after the last such page
--   PAGE_ID             generations that the page was logged out with:the last one:when
--
-- ARGV
--   1 generation    2 page id    3 pages that KEYS[2] holds at most    4 keep of KEYS[2], in seconds
--   5 why, for operators    6 rests    7 tries    8 quarantine
--   9 1 if the login is certain to be over
--
-- Returns two more numbers: the generations that the page was logged out with, and how long ago it
-- was last logged out with this one (-1 for never). A page that is logged out with many generations
-- may be so with any login, so only its first two count against the account.

if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then redis.call('DEL', KEYS[2]) end
local before = redis.call('HGET', KEYS[2], ARGV[2])
local generations, ago = 1, -1
if before then
  local n, last, at = string.match(before, '^(%d+):(%d+):(%d+)$')
  n, at = tonumber(n or '0'), tonumber(at or '0')
  if n > 0 and n <= 1000000 and at <= now then
    if last == ARGV[1] then
      generations, ago = n, now - at
    else
      generations = n + 1
    end
  end
end
redis.call('HSET', KEYS[2], ARGV[2], generations .. ':' .. ARGV[1] .. ':' .. us(now))
redis.call('EXPIRE', KEYS[2], ARGV[4])
local recorded = redis.call('HGET', account, 'proven') == ARGV[1]
  or redis.call('HGET', account, 'out') == ARGV[1]
if ARGV[9] == '1' and generations <= 2
  and redis.call('HGET', account, 'generation') == ARGV[1] and not recorded then
  redis.call('HSET', account, 'out', ARGV[1])
  record_failure('useless', ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), 0)
end
local counted = reply('counted')
counted[5], counted[6] = generations, us(ago)
return counted
