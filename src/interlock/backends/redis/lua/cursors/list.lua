-- include: common cursors
-- List cursors by name, at most ARGV[3].
local views = {}
for i, name in ipairs(call('ZRANGE', prefix .. 'cursors', 0, tonumber(ARGV[3]) - 1)) do
    views[i] = cursor_view(name, cjson.decode(call('LINDEX', prefix .. 'cursor:' .. name, 0)))
end
return views
