-- Brings the records of a bank's calls up to date (outcomes.py says what they are, and sets the names in capitals).
--
-- Arguments: the time, and then outcome, partner, number of calls, and when the last of them ended.
--
-- In every record, `weight` is the number of the newest calls, and `bad` of those that failed. In WHOLE's, `others` are
-- the calls of partners whose series does not fail, and how many failed; `past` is what these were at the last writes.
-- In a partner's record, `base` is what `others` were when its series was so old that no good call from before was
-- written any more, and `mine` are its own among them since.

local now = tonumber(ARGV[1])
local records = {}
local function record(name)
  if not records[name] then
    local raw = redis.call('HGET', KEYS[1], name)
    records[name] = raw and cjson.decode(raw) or {at = 0, since = 0, failed_at = 0, began = 0, calls = 0, failed = 0,
      ends = {}, who = {}, good = 0, good_at = 0, weight = 0, bad = 0, needs = 0, needs_s = 0, others = {0, 0},
      past = {}, mine = {0, 0}, part = {0, 0, 0}}
  end
  return records[name]
end
local whole = record(WHOLE)

local function is_over(r)
  return r.good >= r.needs and now - r.good_at >= r.needs_s
end

local function begin(r)
  if r.failing then
    r.ended = {began = r.began, failed_at = r.failed_at, calls = r.calls, failed = r.failed, ends = r.ends,
      good = r.good, good_at = r.good > 0 and r.good_at or now, who = r.who,
      alone = r.alone, over = is_over(r)}
  end
  r.failing, r.alone, r.began, r.calls, r.failed, r.good, r.base = false, false, now, 0, 0, 0, nil
  r.ends, r.who = {}, {}
end

local function fail(r, outcome, partner, number)
  local share = r.bad * 100 / r.weight
  local calls, failed = r.calls + r.good + number, r.failed + number
  local is_login = outcome == 'login_refused'
  local is_rare = (share < FAILING_PERCENT and not is_login) or failed * 100 < FAILING_PERCENT * calls
  local is_other = is_login ~= (r.ends.login_refused == r.failed)
  local is_apart = r.good >= APART or now - r.failed_at > HOUR_S or is_other
  if r.failed == 0 or (r.failing and (is_over(r) or is_rare)) or (not r.failing and is_apart) then
    begin(r)
  end
  r.calls, r.failed, r.failed_at, r.good = r.calls + r.good + number, r.failed + number, now, 0
  r.ends[outcome], r.who[partner] = (r.ends[outcome] or 0) + number, true
  is_login = r.ends.login_refused == r.failed
  r.failing = r.failing or (r.failed >= LEAST_FAILED and (share >= FAILING_PERCENT or is_login))
  r.needs, r.needs_s = math.min(NEWEST, math.ceil(CHANCES * r.calls / r.failed)), MINUTE_S
  if is_login then
    r.needs, r.needs_s = 1, 0
  end
end

local function add(r, outcome, partner, number, at)
  local keep = 1
  if r.weight > NEWEST then
    keep = math.max(NEWEST / r.weight, math.exp(math.min(r.at - at, 0) / MINUTE_S))
  end
  r.weight, r.bad = r.weight * keep + number, r.bad * keep
  if outcome ~= 'answered' then
    r.bad = r.bad + number
    fail(r, outcome, partner, number)
  elseif at >= r.failed_at then
    r.good_at = r.good > 0 and r.good_at or at
    r.good = r.good + number
  elseif at >= r.began then
    r.calls = r.calls + number
  end
end

local function note(r, outcome, at)
  if at >= r.at and r.outcome ~= outcome then
    r.outcome, r.since = outcome, at
  end
  r.at = math.max(r.at, at)
end

-- How many calls of others than this partner failed in the series of all.
local function failed_of_others(r, series)
  return series.failed - (r.part[1] == series.began and r.part[3] or 0)
end

-- True if the bank came back since the last failure of this partner, and had failed for others, too.
local function has_returned(r)
  local is_now = whole.failing and is_over(whole)
  local ended = is_now and whole or whole.ended
  local has_ended = ended and (is_now or ended.over) and ended.good_at >= r.failed_at
  return not r.alone and has_ended and failed_of_others(r, ended) >= LEAST_FAILED
end

-- True if others called the bank during this partner's series, and hardly failed. Not while the bank fails for others.
local function is_alone(r)
  local is_of_others = whole.failing and not is_over(whole) and failed_of_others(r, whole) >= LEAST_FAILED
  if not r.base or r.ends.login_refused == r.failed or is_of_others then
    return false
  end
  local calls = whole.others[1] - r.base[1] - r.mine[1]
  local failed, expected = whole.others[2] - r.base[2] - r.mine[2], calls * r.failed / r.calls
  return expected >= CHANCES and failed * CHANCES <= expected and failed * 100 < FAILING_PERCENT * calls
end

if #whole.past == 0 or now - whole.past[#whole.past][1] >= LATE_S / 5 then
  table.insert(whole.past, {now, whole.others[1], whole.others[2]})
  if #whole.past > 8 then
    table.remove(whole.past, 1)
  end
end

local function set_base(r)
  for _, past in ipairs(whole.past) do
    if not r.base and past[1] >= r.began + LATE_S then
      r.base, r.mine = {past[2], past[3]}, {0, 0}
    end
  end
end

local function count(numbers, first, number, has_failed)
  numbers[first] = numbers[first] + number
  numbers[first + 1] = numbers[first + 1] + (has_failed and number or 0)
end

for each = 2, #ARGV, 4 do
  local outcome, partner, number, at = ARGV[each], ARGV[each + 1], tonumber(ARGV[each + 2]), tonumber(ARGV[each + 3])
  local own, has_failed = record(partner), outcome ~= 'answered'
  if outcome ~= 'closed' then
    if has_failed and has_returned(own) then
      begin(own)
    end
    add(own, outcome, partner, number, at)
    set_base(own)
    local is_failing = own.failing and not is_over(own)
    if has_failed and is_failing and not own.alone and is_alone(own) then
      own.alone = true
      whole.failing = whole.failing and failed_of_others(own, whole) >= LEAST_FAILED
      begin(whole)
    end
    if not (is_failing and own.alone) then
      add(whole, outcome, partner, number, at)
      own.part = own.part[1] == whole.began and own.part or {whole.began, 0, 0}
      if has_failed or now - whole.began >= LATE_S then
        count(own.part, 2, number, has_failed)
      end
    end
    if not is_failing then
      count(whole.others, 1, number, has_failed)
      count(own.mine, 1, number, has_failed)
    end
  end
  note(whole, outcome, at)
  note(own, outcome, at)
end
for name, r in pairs(records) do
  redis.call('HSET', KEYS[1], name, cjson.encode(r))
end
redis.call('EXPIRE', KEYS[1], KEPT_S)
