-- include: common cursors
-- Return the last moves of a cursor, newest first, at most ARGV[4].
local name, views = ARGV[3], {}
for i, move in ipairs(moves_of(name)) do
    if i <= tonumber(ARGV[4]) then
        views[i] = cursor_view(name, move)
    end
end
return views
