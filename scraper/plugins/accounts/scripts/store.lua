-- Stores a new login and releases the lock. Needs common.lua, which describes KEYS[1] and the reply.
--
-- ARGV
--   1 token of the process    2 the sealed login    3 microseconds that it lasts, 0 if unknown
--   4 keep, in seconds    5 KEY:MARK of the secret
--
-- The word is stored, or lost if another process has taken the lock.

if redis.call('HGET', account, 'token') ~= ARGV[1] then return reply('lost') end
clear_failures()
redis.call('HDEL', account, 'token', 'locked')
local expires = tonumber(ARGV[3])
if expires > 0 then expires = now + expires end
redis.call('HSET', account, 'generation', us(now), 'sealed', ARGV[2], 'revision', 0,
  'expires', us(expires), 'secret', ARGV[5])
redis.call('HINCRBY', account, 'logins', 1)
redis.call('EXPIRE', account, ARGV[4])
return reply('stored')
