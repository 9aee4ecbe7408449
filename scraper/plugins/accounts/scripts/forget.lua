-- Forgets an account. Needs common.lua, which describes KEYS[1].
--
-- KEYS[2] scraper:login:out:SITE:ACCOUNT, as logged_out.lua describes it
-- ARGV  1 keep, in seconds, of the time of forgetting: it stops workers from restoring the login
--
-- Returns 0 if there was nothing to forget.

local there = redis.call('HEXISTS', account, 'generation')
  + redis.call('HEXISTS', account, 'tried') + redis.call('HEXISTS', account, 'rest')
redis.call('DEL', account, KEYS[2])
redis.call('HSET', account, 'forgotten', us(now))
redis.call('EXPIRE', account, ARGV[1])
return there
