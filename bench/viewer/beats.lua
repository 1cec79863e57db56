-- Heartbeats of many pages, for wrk: `wrk -s beats.lua <url> -- <sessions> [rooms]`. Every request carries the next session's id,
-- over and over. Requests are made before the clock starts, so that making them takes nothing from the measurement.
-- Ends with one line of JSON for the program that started it.

local requests = {}
local at = 0

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  for session = 1, tonumber(args[1]) do
    -- The form of a UUID, with digits that do not come in order.
    local a = (session * 2654435761) % 4294967296
    local b = (session * 40503) % 65536
    local id = string.format("%08x-%04x-4000-8000-%012x", a, b, session)
    local rooms = tonumber(args[2] or "0")
    local room = rooms > 0 and string.format(',"room":"room-%d","user":"user-%d"', session % rooms, session) or ""
    local body = '{"sessionId":"' .. id .. '","visible":true' .. room .. '}'
    requests[session] = wrk.format("POST", "/api/viewer", headers, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"dropped":%d,"timeouts":%d,"refused":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write, errors.timeout, errors.status))
end
