-- Records that a login fetched a good page. Needs common.lua, which describes KEYS[1] and the reply.
--
-- ARGV  1 generation
--
-- The word is proven, or other if the account has another generation.

if redis.call('HGET', account, 'generation') ~= ARGV[1] then return reply('other') end
redis.call('HSET', account, 'proven', ARGV[1])
redis.call('HDEL', account, 'n:useless')
if redis.call('HGET', account, 'kind') == 'useless' then clear_failures() end
return reply('proven')
