-- Reserves slots and an allotment of one host for one process. One call is one decision, on Redis's
-- clock. `scraper.rules.budget` says why the pace falls and rises.
--
-- A slot is a time at which one request may leave. An allotment is how many requests a process may
-- have in flight at once. All times are microseconds. Needs common.lua.
--
-- KEYS[1] scraper:host:HOST, a hash that expires a minute after its last slot or rest
--   tat                 when the next slot is free: GCRA's theoretical arrival time
--   rest, why           no request leaves before this time; the reason, for operators
--   factor              the pace: 1 is the whole budget
--   cut, raised         when the pace was last cut, and when it last changed
--   base                the interval that the pace divides, for a host without a rate
--   answers, since      good answers of a host without a rate, counted since this time
--   interval, concurrency, burst    the budget that was in force at the last reservation
-- KEYS[2] scraper:places:HOST, a hash that expires with its last allotment
--   PROCESS             granted:wanted:expires:since:interval:burst:concurrency
--
-- ARGV
--    1 process    2 interval    3 burst    4 concurrency
--    5 slots that the process wants    6 allotment that it wants    7 its requests in flight
--    8 ahead: how far ahead slots are reserved
--    9 lead: no slot is nearer than this, since the reply has yet to travel
--   10 time to live of an allotment
--   11 rotation: how long a process keeps its allotment while others have none
--   12 busy until: the end of the slots that the process holds, in case Redis has lost them
--   13 good answers since its last reservation    14 step, in millionths    15 recovery
--   16 end of an earlier reservation    17 how many of its microseconds come back unused
--
-- Returns {now, start, first slot, pace, slots granted, allotment, contended, factor in millionths,
-- end, returned, a key that was dropped as foreign or ''}. Slot k, counted from 0, is at max(start, first + k * pace); the host is free again
-- at `end`.
--
-- Slots come back only while they are the last that any process has reserved: then the result is as
-- if they had never been reserved. Otherwise no new ones are granted.
--
-- Requests in flight count even above the allotment: a process that has too many receives a smaller
-- allotment, and its requests count until they end. So the sum never exceeds the concurrency.
--
-- Where more processes want to fetch than the concurrency allows, allotments rotate: a process that
-- has held one for a whole rotation gives it up to the process that has waited longest.

local foreign = drop_foreign()
local me = ARGV[1]
local own_interval, own_burst, own_limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local slots, want, inflight = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local ahead, lead = tonumber(ARGV[8]), tonumber(ARGV[9])
local ttl, rotation = tonumber(ARGV[10]), tonumber(ARGV[11])
local interval, burst, limit = own_interval, own_burst, own_limit

-- Other processes' allotments count, and the strictest of all budgets is in force.
local mine, since = 0, now
local granted_to_others, others = 0, {}
local rows = redis.call('HGETALL', KEYS[2])
for i = 1, #rows, 2 do
  local process = rows[i]
  local has, wants, expires, from, its_interval, its_burst, its_limit =
    string.match(rows[i + 1], '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  has, wants = number(has, 0, 0, MANY), number(wants, 0, 0, MANY)
  expires, from = tonumber(expires), number(from, now, 0, now)
  if not expires or expires < now or expires > now + DAY then
    redis.call('HDEL', KEYS[2], process)
  elseif process == me then
    mine, since = has, from
  else
    granted_to_others = granted_to_others + has
    interval = math.max(interval, number(its_interval, 0, 0, DAY))
    burst = math.min(burst, number(its_burst, burst, 1, MANY))
    limit = math.min(limit, number(its_limit, limit, 1, MANY))
    others[#others + 1] = {has = has, wants = wants, since = from, asked = expires - ttl}
  end
end

-- Good answers raise the pace.
local row = redis.call('HMGET', KEYS[1],
                       'tat', 'rest', 'factor', 'raised', 'base', 'answers', 'since')
local tat, rest = number(row[1], 0, 0, now + 100 * DAY), number(row[2], 0, 0, now + DAY)
local factor = number(row[3], 1, 0.03, 1)
local good = tonumber(ARGV[13])
if factor < 1 and good > 0 then
  local raise = math.min(good * tonumber(ARGV[14]) / 1000000,
                         (now - number(row[4], now, 0, now)) / tonumber(ARGV[15]))
  factor = math.min(1, factor + math.max(0, raise))
  if factor < 1 then
    redis.call('HSET', KEYS[1], 'factor', string.format('%.9f', factor),
               'raised', string.format('%.0f', now))
  else
    redis.call('HDEL', KEYS[1], 'factor', 'raised', 'base', 'cut')
  end
end
-- Without a rate, the answers of the last 10 to 20 seconds say what the pace is a part of.
if interval == 0 and good > 0 then
  local answers, from = number(row[6], 0, 0, 1e12), number(row[7], 0, 0, now)
  if now - from > 60000000 then
    answers, from = 0, now - 4000000
  elseif now - from > 20000000 then
    answers, from = answers * 10000000 / (now - from), now - 10000000
  end
  redis.call('HSET', KEYS[1], 'answers', string.format('%.3f', answers + good),
             'since', string.format('%.0f', from))
end

-- Unused slots come back.
local returned = 0
if tonumber(ARGV[17]) > 0 then
  if tat == tonumber(ARGV[16]) then
    returned, tat = 1, tat - tonumber(ARGV[17])
    redis.call('HSET', KEYS[1], 'tat', string.format('%.0f', tat))
  else
    slots = 0
  end
end

local pace = 0
if interval > 0 then pace = math.ceil(interval / factor)
elseif factor < 1 then pace = math.ceil(number(row[5], 1000000, 1, DAY) / factor) end
if factor < 1 then burst = 1 end

-- The allotment: at most a fair share while another process has less than that and wants more.
local fair = math.max(1, math.floor(limit / (#others + 1)))
local cap, starved, before_me = limit, false, 0
for _, other in ipairs(others) do
  if other.has < math.min(other.wants, fair) then cap = fair end
  if other.has == 0 and other.wants > 0 and now - other.asked < 2000000 then
    starved = true
    if other.since < since then before_me = before_me + 1 end
  end
end
local room = limit - granted_to_others
local allotment
if mine == 0 then
  allotment = math.max(0, math.min(want, cap, room - before_me))
elseif starved and room - mine <= 0 and now - since > rotation and #others + 1 > limit then
  allotment = 0
else
  allotment = math.max(0, math.min(want, cap, room))
end
local held = math.max(inflight, allotment)
if (held == 0) ~= (mine == 0) then since = now end
if want == 0 and inflight == 0 then
  redis.call('HDEL', KEYS[2], me)
else
  redis.call('HSET', KEYS[2], me, string.format('%d:%d:%.0f:%.0f:%d:%d:%d', held, want, now + ttl,
             since, own_interval, own_burst, own_limit))
  redis.call('PEXPIRE', KEYS[2], math.ceil(ttl / 1000))
end

-- The slots.
local start = math.max(now + lead, rest)
local first, granted = start, 0
if pace == 0 then
  start = math.max(now, rest)
  first = start
  if start == now then granted = slots end
else
  -- The lead may have been longer when the slot before was granted.
  ahead = math.max(ahead, pace + 500000) + lead
  -- No slot is granted so far ahead: Redis's clock was set back, or the budget is larger now.
  tat = math.min(tat, now + 2 * ahead + burst * pace)
  tat = math.max(tat, math.min(tonumber(ARGV[12]), now + ahead), start, rest + (burst - 1) * pace)
  local room_for = now + ahead + (burst - 1) * pace - tat
  first = tat - (burst - 1) * pace
  if slots > 0 and room_for >= 0 then
    granted = math.min(slots, math.floor(room_for / pace) + 1)
    tat = tat + granted * pace
    redis.call('HSET', KEYS[1], 'tat', string.format('%.0f', tat))
  end
end
if want > 0 or inflight > 0 or slots > 0 then
  redis.call('HSET', KEYS[1], 'interval', interval, 'concurrency', limit, 'burst', burst)
  local lasts = math.max(tat - now, rest - now, 0) / 1000 + 60000
  if factor < 1 then lasts = lasts + tonumber(ARGV[15]) / 1000 end
  redis.call('PEXPIRE', KEYS[1], math.ceil(lasts))
end
return {string.format('%.0f', now), string.format('%.0f', start), string.format('%.0f', first),
        pace, granted, allotment, starved and 1 or 0, math.floor(factor * 1000000),
        string.format('%.0f', tat), returned, foreign}
