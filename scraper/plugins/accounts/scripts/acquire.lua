-- Takes the lock of an account's login. Needs common.lua, which describes KEYS[1] and the reply.
--
-- ARGV
--   1 token of the process    2 the generation that it saw logged out, 0 for none
--   3 time to live of the lock    4 interval between two logins    5 force: 1 for an operator's check
--   6 keep: how long the hash is kept, in seconds
--   7 how long a changed secret stays the current one, so that two workers whose files differ do
--     not log in by turns
--   8 and more: KEY:MARK of the account's secret, one for each of the process's keys; marks of other
--     keys cannot be compared
--
-- The word is acquired, newer (a later login exists), resting, too_soon or busy.

local secret, known, changed = redis.call('HGET', account, 'secret'), false, false
if secret then
  local id = string.match(secret, '^[^:]*')
  for i = 8, #ARGV do
    if ARGV[i] == secret then known = true
    elseif string.match(ARGV[i], '^[^:]*') == id then changed = true end
  end
end
if changed and not known and number('changed') + tonumber(ARGV[7]) < now then
  clear_failures()
  redis.call('HDEL', account, 'generation', 'sealed', 'proven', 'out', 'n:useless', 'tried')
  redis.call('HSET', account, 'changed', us(now), 'secret', ARGV[8])
end
if ARGV[5] == '0' then
  local generation = redis.call('HGET', account, 'generation') or '0'
  if generation ~= '0' and generation ~= ARGV[2] then return reply('newer') end
  if number('rest') > now then return reply('resting') end
  if number('tried') + tonumber(ARGV[4]) > now then return reply('too_soon') end
end
if number('locked') > now then return reply('busy') end
redis.call('HSET', account, 'token', ARGV[1], 'locked', us(now + tonumber(ARGV[3])),
  'tried', us(now))
if not secret then redis.call('HSET', account, 'secret', ARGV[8]) end
redis.call('EXPIRE', account, ARGV[6])
return reply('acquired')
