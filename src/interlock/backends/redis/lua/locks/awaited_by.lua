-- include: common
-- Return the keys that a session waits for. Read-only.
return call('HVALS', prefix .. 'queues:' .. ARGV[3])
