-- Adds one strike to a proxy at a host. Needs stats.lua, which describes KEYS[1] and ARGV 1 to 3.
--
-- ARGV
--   4 id    5 why    6 the least quarantine, in microseconds
--
-- Its result is how long the proxy is in quarantine from now on, in microseconds.

local r = read(ARGV[4])
strike(r, ARGV[5], tonumber(ARGV[6]))
write(ARGV[4], r)
return {string.format('%.0f', r.free - now), foreign}
