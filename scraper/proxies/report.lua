-- Adds what a process measured of proxies at a host. Needs stats.lua, which describes KEYS[1] and
-- ARGV 1 to 3.
--
-- ARGV
--   4 streak_max: this many failures in a row are a strike    5 why, for such a strike
--   then five for each proxy: id, requests, answered, failed, and the sum of the answered requests'
--   latencies in microseconds
--
-- The mean latency moves by a fifth with each answer, and the success rate by a tenth with each
-- request: about twenty good answers make up for a bad time.

for i = 6, #ARGV, 5 do
  local r = read(ARGV[i])
  local ok, bad, latency = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  r.n, r.ok, r.bad = r.n + tonumber(ARGV[i + 1]), r.ok + ok, r.bad + bad
  if ok > 0 then
    r.streak = 0
    local mean = latency / ok
    if r.lat == 0 then r.lat = mean else r.lat = r.lat + (mean - r.lat) * (1 - 0.8 ^ ok) end
  else
    r.streak = r.streak + bad
  end
  if ok + bad > 0 then
    r.rate = r.rate + (1000000 * ok / (ok + bad) - r.rate) * (1 - 0.9 ^ (ok + bad))
  end
  if r.streak >= tonumber(ARGV[4]) then strike(r, ARGV[5], 0) end
  write(ARGV[i], r)
end
return {1, foreign}
