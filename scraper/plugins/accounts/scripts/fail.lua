-- Records a failed login and releases the lock. Needs common.lua, which describes KEYS[1] and the
-- reply.
--
-- ARGV
--   1 token of the process
--   2 kind of failure; "" releases the lock as if the login had not been tried
--   3 why, for operators
--   4 rests    5 tries    6 quarantine    7 patience, as record_failure in common.lua takes them
--
-- The word is failed, or lost if another process has taken the lock.

if redis.call('HGET', account, 'token') ~= ARGV[1] then return reply('lost') end
redis.call('HDEL', account, 'token', 'locked')
if ARGV[2] == '' then
  redis.call('HDEL', account, 'tried')
else
  redis.call('HINCRBY', account, 'failures', 1)
  record_failure(ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]),
    tonumber(ARGV[7]))
end
return reply('failed')
