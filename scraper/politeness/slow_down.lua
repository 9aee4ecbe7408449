-- Rests a host, and cuts its pace. The rest moves to now + rest and never back; no burst follows it.
--
-- KEYS as in reserve.lua; only KEYS[1] changes. All times are microseconds. Needs common.lua.
--
-- ARGV
--   1 rest    2 why
--   3 age: how long ago the request left whose answer is the reason; -1: the pace stays
--   4 settles: a request that left within this time after a cut does not justify another
--   5 cut, in millionths    6 floor, in millionths    7 interval, 0 without a rate
--   8 concurrency    9 recovery
--
-- Returns {1 where the pace was cut, else 0, a key that was dropped as foreign or ''}.

local foreign = drop_foreign()
local row = redis.call('HMGET', KEYS[1], 'tat', 'rest', 'factor', 'cut', 'base', 'answers', 'since')
local tat, rest = number(row[1], 0, 0, now + 100 * DAY), number(row[2], 0, 0, now + DAY)
local factor = number(row[3], 1, 0.03, 1)
local interval = tonumber(ARGV[7])
local until_us = now + tonumber(ARGV[1])
if tonumber(ARGV[1]) > 0 and until_us > rest then
  rest = until_us
  redis.call('HSET', KEYS[1], 'rest', string.format('%.0f', rest), 'why', ARGV[2])
end
local age, cut = tonumber(ARGV[3]), 0
if age >= 0 and (not row[4] or now - age > number(row[4], 0, 0, now) + tonumber(ARGV[4])) then
  cut = 1
  if interval == 0 and not row[5] then
    local answers, from = number(row[6], 0, 0, 1e12), number(row[7], 0, 0, now)
    local base = 1000000 / tonumber(ARGV[8])
    if answers > 0 and now - from < 60000000 then base = math.max(1, (now - from) / answers) end
    redis.call('HSET', KEYS[1], 'base', string.format('%.0f', base))
  end
  factor = math.max(tonumber(ARGV[6]), factor * tonumber(ARGV[5])) / 1000000
  redis.call('HSET', KEYS[1], 'factor', string.format('%.9f', factor),
             'cut', string.format('%.0f', now), 'raised', string.format('%.0f', now))
end
local lasts = math.max(tat - now, rest - now, 0) / 1000 + 60000
if factor < 1 then lasts = lasts + tonumber(ARGV[9]) / 1000 end
redis.call('PEXPIRE', KEYS[1], math.ceil(lasts))
return {cut, foreign}
