-- Appends results to a call's stream. Returns 1; 0 if the call is cancelled; -1 if Redis does not
-- know it; 2 if too many bytes are unread.
--
-- KEYS[1] scraper:call:ID, a hash: state, pending (bytes of results that the caller has not read)
-- KEYS[2] scraper:call:ID:results, a stream: d (the entry as JSON)
-- ARGV[1] the entry   [2] the most bytes that may be pending   [3] time to live in milliseconds
--
-- An entry larger than the limit passes if nothing is pending, so that the call can end.
local s = redis.call('HMGET', KEYS[1], 'state', 'pending')
if not s[1] then return -1 end
if s[1] ~= 'open' then return 0 end
-- What no script wrote counts as lost.
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'stream' and kind ~= 'none' then redis.call('DEL', KEYS[2]) end
local pending = string.match(s[2] or '', '^%d%d?%d?%d?%d?%d?%d?%d?%d?%d?$')
if not pending or redis.call('XLEN', KEYS[2]) == 0 then
  pending = 0
  redis.call('HDEL', KEYS[1], 'pending')
end
pending = tonumber(pending)
if pending > 0 and pending + #ARGV[1] > tonumber(ARGV[2]) then return 2 end
redis.call('XADD', KEYS[2], '*', 'd', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'pending', #ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
