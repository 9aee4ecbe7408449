-- Writes the changed cookies of a login. Needs common.lua, which describes KEYS[1] and the reply.
--
-- ARGV  1 generation    2 the revision that the cookies come from    3 the sealed login
--
-- The word is saved, or other if the account has another generation or revision.

if redis.call('HGET', account, 'generation') ~= ARGV[1]
  or redis.call('HGET', account, 'revision') ~= ARGV[2] then
  return reply('other')
end
redis.call('HSET', account, 'sealed', ARGV[3])
redis.call('HINCRBY', account, 'revision', 1)
return reply('saved')
