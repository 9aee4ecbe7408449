-- Writes back a login that Redis has lost. Needs common.lua, which describes KEYS[1] and the reply.
--
-- ARGV
--   1 generation    2 the sealed login    3 when it expires, by the server's clock
--   4 keep, in seconds    5 KEY:MARK of the secret    6 1 if it has fetched a good page
--
-- The word is restored, other if the account has a login, or forgotten if an operator had it
-- forgotten since.

if redis.call('HGET', account, 'generation') then return reply('other') end
if number('forgotten') > tonumber(ARGV[1]) then return reply('forgotten') end
redis.call('HSET', account, 'generation', ARGV[1], 'sealed', ARGV[2], 'revision', 0,
  'expires', ARGV[3], 'secret', ARGV[5])
if ARGV[6] == '1' then redis.call('HSET', account, 'proven', ARGV[1]) end
redis.call('EXPIRE', account, ARGV[4])
return reply('restored')
