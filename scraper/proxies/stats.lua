-- Functions that strike.lua and report.lua share; each is sent behind these. Both return {their
-- result, KEYS[1] if it was dropped, since no script wrote it, or ''}.
--
-- KEYS[1] scraper:proxies:HOST, a hash that expires two weeks after its last change; the host * is
--         for proxies as a whole
--   PROXY_ID            requests:answered:failed:streak:latency_us:success_ppm:free_at_us:strikes:why
--
-- ARGV of both
--   1 forgiven: one strike is forgiven for each of these microseconds that the proxy was free again
--   2 keep: how long the hash is kept, in seconds
--   3 ladder: the quarantines after the first strike, the second and so on, in microseconds, with
--     commas between them

local size = redis.pcall('HLEN', KEYS[1])
local foreign = ''
if type(size) ~= 'number' or size > 100000 then
  redis.call('DEL', KEYS[1])
  foreign = KEYS[1]
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local forgiven_us, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local ladder = {}
for step in string.gmatch(ARGV[3], '[^,]+') do ladder[#ladder + 1] = tonumber(step) end

-- What no script wrote counts as lost.
local function read(id)
  local valid = redis.call('HSTRLEN', KEYS[1], id) <= 1000
  local text = valid and redis.call('HGET', KEYS[1], id) or ''
  local pattern = '^(%-?%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(.*)$'
  if not string.match(text, pattern) then text = '0:0:0:0:0:1000000:0:0:' end
  local r = {}
  r.n, r.ok, r.bad, r.streak, r.lat, r.rate, r.free, r.strikes, r.why = string.match(text, pattern)
  for k, v in pairs(r) do if k ~= 'why' then r[k] = math.min(tonumber(v), 9e15) end end
  if r.free > now + 86400000000 then r.free = 0 end
  r.rate = math.min(r.rate, 1000000)
  return r
end

local function write(id, r)
  redis.call('HSET', KEYS[1], id, string.format('%d:%d:%d:%d:%.0f:%.0f:%.0f:%d:%s',
    r.n, r.ok, r.bad, r.streak, r.lat, r.rate, r.free, r.strikes, r.why))
  redis.call('EXPIRE', KEYS[1], keep)
end

-- A proxy in quarantine gets no further strike: what several processes report of one failure is one
-- strike.
local function strike(r, why, least)
  if r.free <= now then
    local forgiven = math.floor((now - r.free) / forgiven_us)
    r.strikes = math.max(0, r.strikes - forgiven) + 1
    r.free = now + ladder[math.min(r.strikes, #ladder)]
    r.why = why
    r.streak = 0
  end
  r.free = math.max(r.free, now + least)
end
