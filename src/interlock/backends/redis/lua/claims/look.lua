-- Claims that are kept, by key: those that begin with ARGV[4] and are in state ARGV[5] (empty: any), at most ARGV[3]; or
-- just the one in ARGV[7]. Begins after the key in ARGV[6], if there is one. Looks at a bounded number of keys, so that
-- nobody is held up. Changes nothing. Answers {the key to go on after, if there may be more, views …}.
local most, start, state, after = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local AT_ONCE = 1000

local views = {false}
local function show(key)
    local claim = read_claim(key)
    if claim and (state == '' or claim.state == state) and string.sub(key, 1, #start) == start then
        views[#views + 1] = claim_view(claim)
    end
end

if ARGV[7] then
    show(ARGV[7])
    return views
end
local from = after ~= '' and '(' .. after or start ~= '' and '[' .. start or '-'
local keys = call('ZRANGEBYLEX', prefix .. 'claims', from, '+', 'LIMIT', 0, AT_ONCE)
for i, key in ipairs(keys) do
    if string.sub(key, 1, #start) ~= start then
        return views
    end
    show(key)
    if #views > most then
        return views
    end
    if i == AT_ONCE then
        views[1] = key
    end
end
return views
