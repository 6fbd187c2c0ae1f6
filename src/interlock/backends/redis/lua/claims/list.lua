-- include: common claims
-- List claims by key: those that start with ARGV[4] and are in state ARGV[5] (empty: any), after ARGV[6], at most ARGV[3];
-- or only ARGV[7]. HandlerVersion a bounded number of keys, so that the server stays responsive. Read-only. Returns {the key to
-- continue after if there may be more, views…}.
local limit, start, state, after = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local MAX_KEYS = 1000

local views = {false}
local function add_view(key)
    local claim = read_claim(key)
    if claim and (state == '' or claim.state == state) and string.sub(key, 1, #start) == start then
        views[#views + 1] = claim_view(claim)
    end
end

if ARGV[7] then
    add_view(ARGV[7])
    return views
end
local from = after ~= '' and '(' .. after or start ~= '' and '[' .. start or '-'
local keys = call('ZRANGEBYLEX', prefix .. 'claims', from, '+', 'LIMIT', 0, MAX_KEYS)
for i, key in ipairs(keys) do
    if string.sub(key, 1, #start) ~= start then
        return views
    end
    add_view(key)
    if #views > limit then
        return views
    end
    if i == MAX_KEYS then
        views[1] = key
    end
end
return views
