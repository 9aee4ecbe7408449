-- Reads an account. Needs common.lua, which describes KEYS[1] and the reply.

return reply('read')
