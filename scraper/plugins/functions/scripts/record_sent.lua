-- Records a group before its message is sent, and withdraws stale ones.
--
-- KEYS[1] scraper:call:ID, a hash: state, g:N (0: sent, and no worker has it)
-- ARGV[1] time to live in milliseconds   [2] the group's number   [3...] stale numbers
--
-- Workers refuse a group without g:N, so a message that still waits in the broker does nothing.
redis.call('HSETNX', KEYS[1], 'state', 'open')
redis.call('HSET', KEYS[1], 'g:' .. ARGV[2], '0')
for i = 3, #ARGV do redis.call('HDEL', KEYS[1], 'g:' .. ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
