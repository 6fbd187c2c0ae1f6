-- The keys that a session waits for. Changes nothing.
return call('HVALS', prefix .. 'queues:' .. ARGV[3])
