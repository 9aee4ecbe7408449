"""The Lua of a host's budget, and nothing else: `scraper.politeness.fleet_limiter` calls it,
`scraper.rules.budget` says why.

Two keys a host, both gone by themselves once nobody needs them. Times are microseconds of Redis's
own clock.

    scraper:host:HOST    hash
        tat                 when the next slot is free (the theoretical arrival time of GCRA)
        rest, why           nobody leaves before; the reason, for people
        factor              the pace, 1 being the whole budget
        cut, raised         when the pace was last halved, and last changed
        base                the interval that the pace is a part of, for a host without a rate
        answers, since      good answers of such a host, and from when on they are counted
        interval, concurrency, burst    the budget in force when it was last asked for
    scraper:places:HOST  hash
        PROCESS             granted:wanted:expires:since:interval:burst:concurrency
"""

from __future__ import annotations

# ARGV   1 process  2 interval  3 burst  4 concurrency  5 slots wanted  6 places wanted
#        7 requests under way  8 ahead
#        9 lead: no slot is nearer, since its answer has yet to travel
#       10 time to live of places
#       11 turn: how long a place is held while others have none
#       12 busy until: the end of the slots this process knows of, should Redis have forgotten
#       13 good answers since it last asked  14 step, in millionths  15 recovery
#       16 end of a reservation, of which 17 so much comes back, unused
# Returns {now, start, first slot, interval, slots granted, places, others wait, pace in millionths,
# end, taken back}: slot k (from 0) is at max(start, first + k * interval); the host is free again
# at `end`.
#
# Slots come back for as long as they are the last that anybody has got: then it is as if they had
# not been reserved.
#
# What is under way stays counted, even above the allotment: a process that has too much is told its
# new allotment, and the requests it may not replace count against it until they end. So the sum
# never exceeds the concurrency.
#
# Where more processes than places want some, places go round: who has held one for a turn gives it
# up, and it goes to whoever has waited longest and still asks.
RESERVE = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local me = ARGV[1]
local own_interval, own_burst, own_limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local slots, want, inflight = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local ahead, lead = tonumber(ARGV[8]), tonumber(ARGV[9])
local ttl, turn = tonumber(ARGV[10]), tonumber(ARGV[11])
local interval, burst, limit = own_interval, own_burst, own_limit

local mine, since = 0, now
local others, wanting, list = 0, 0, {}
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local g, w, e, s, iv, b, c =
    string.match(all[i + 1], '(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)')
  g, w, e, s = tonumber(g), tonumber(w), tonumber(e), tonumber(s)
  if e < now then
    redis.call('HDEL', KEYS[2], all[i])
  elseif all[i] == me then
    mine, since = g, s
  else
    others = others + g
    wanting = wanting + 1
    interval = math.max(interval, tonumber(iv))
    burst, limit = math.min(burst, tonumber(b)), math.min(limit, tonumber(c))
    list[wanting] = {g = g, w = w, s = s, asked = e - ttl}
  end
end

local h = redis.call('HMGET', KEYS[1],
                     'tat', 'rest', 'factor', 'raised', 'base', 'answers', 'since')
local tat, rest, factor = tonumber(h[1] or '0'), tonumber(h[2] or '0'), tonumber(h[3] or '1')
local good = tonumber(ARGV[13])
if factor < 1 and good > 0 then
  local raise = math.min(good * tonumber(ARGV[14]) / 1000000,
                         (now - tonumber(h[4])) / tonumber(ARGV[15]))
  factor = math.min(1, factor + math.max(0, raise))
  if factor < 1 then
    redis.call('HSET', KEYS[1], 'factor', string.format('%.9f', factor),
               'raised', string.format('%.0f', now))
  else
    redis.call('HDEL', KEYS[1], 'factor', 'raised', 'base', 'cut')
  end
end
if interval == 0 and good > 0 then
  local n, from = tonumber(h[6] or '0'), tonumber(h[7] or '0')
  if now - from > 60000000 then
    n, from = 0, now - 4000000
  elseif now - from > 20000000 then
    n, from = n * 10000000 / (now - from), now - 10000000
  end
  redis.call('HSET', KEYS[1], 'answers', string.format('%.3f', n + good),
             'since', string.format('%.0f', from))
end
local took_back = 0
if tonumber(ARGV[17]) > 0 then
  if tat == tonumber(ARGV[16]) then
    took_back, tat = 1, tat - tonumber(ARGV[17])
    redis.call('HSET', KEYS[1], 'tat', string.format('%.0f', tat))
  else
    slots = 0
  end
end
local pace = 0
if interval > 0 then pace = math.ceil(interval / factor)
elseif factor < 1 then pace = math.ceil(tonumber(h[5] or '1000000') / factor) end
if factor < 1 then burst = 1 end

local fair = math.max(1, math.floor(limit / (wanting + 1)))
local cap, starved, before_me = limit, false, 0
for i = 1, wanting do
  local o = list[i]
  if o.g < math.min(o.w, fair) then cap = fair end
  if o.g == 0 and o.w > 0 and now - o.asked < 2000000 then
    starved = true
    if o.s < since then before_me = before_me + 1 end
  end
end
local room = limit - others
local share
if mine == 0 then
  share = math.max(0, math.min(want, cap, room - before_me))
elseif starved and room - mine <= 0 and now - since > turn and wanting + 1 > limit then
  share = 0
else
  share = math.max(0, math.min(want, cap, room))
end
local held = math.max(inflight, share)
if (held == 0) ~= (mine == 0) then since = now end
if want == 0 and inflight == 0 then
  redis.call('HDEL', KEYS[2], me)
else
  redis.call('HSET', KEYS[2], me, string.format('%d:%d:%.0f:%.0f:%d:%d:%d', held, want, now + ttl,
             since, own_interval, own_burst, own_limit))
  redis.call('PEXPIRE', KEYS[2], math.ceil(ttl / 1000))
end

local start = math.max(now + lead, rest)
local first, granted = start, 0
if pace == 0 then
  start = math.max(now, rest)
  first = start
  if start == now then granted = slots end
else
  -- the lead may have been longer when the slot before was given
  ahead = math.max(ahead, pace + 500000) + lead
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
        pace, granted, share, starved and 1 or 0, math.floor(factor * 1000000),
        string.format('%.0f', tat), took_back}
"""

# ARGV  1 rest  2 why
#       3 age: how long ago the request left that says so; -1: no reason to slow down
#       4 settles  5 cut, in millionths  6 floor, in millionths  7 interval, 0 without a rate
#       8 concurrency  9 recovery
# Returns 1 where the pace was cut. The rest moves to now + rest, never back; no burst follows it.
SLOW = """
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local h = redis.call('HMGET', KEYS[1], 'tat', 'rest', 'factor', 'cut', 'base', 'answers', 'since')
local tat, rest, factor = tonumber(h[1] or '0'), tonumber(h[2] or '0'), tonumber(h[3] or '1')
local interval = tonumber(ARGV[7])
local until_us = now + tonumber(ARGV[1])
if tonumber(ARGV[1]) > 0 and until_us > rest then
  rest = until_us
  redis.call('HSET', KEYS[1], 'rest', string.format('%.0f', rest), 'why', ARGV[2])
end
local age, cut = tonumber(ARGV[3]), 0
if age >= 0 and (not h[4] or now - age > tonumber(h[4]) + tonumber(ARGV[4])) then
  cut = 1
  if interval == 0 and not h[5] then
    local n, from = tonumber(h[6] or '0'), tonumber(h[7] or '0')
    local base = 1000000 / tonumber(ARGV[8])
    if n > 0 and now - from < 60000000 then base = math.max(1, (now - from) / n) end
    redis.call('HSET', KEYS[1], 'base', string.format('%.0f', base))
  end
  factor = math.max(tonumber(ARGV[6]), factor * tonumber(ARGV[5])) / 1000000
  redis.call('HSET', KEYS[1], 'factor', string.format('%.9f', factor),
             'cut', string.format('%.0f', now), 'raised', string.format('%.0f', now))
end
local lasts = math.max(tat - now, rest - now, 0) / 1000 + 60000
if factor < 1 then lasts = lasts + tonumber(ARGV[9]) / 1000 end
redis.call('PEXPIRE', KEYS[1], math.ceil(lasts))
return cut
"""
