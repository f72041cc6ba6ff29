-- A workload for the interpreter: every part of the language and the libraries
-- that a linker could have broken. Each answer is checked, and printed.

local function check(name, got, want)
  if got ~= want then
    error(string.format("%s: got %s, want %s", name, tostring(got), tostring(want)), 2)
  end
  print(name, got)
end

-- Recursion and integer arithmetic.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
check("fib(24)", fib(24), 46368)

-- A sieve: tables as arrays.
local composite, primes = {}, 0
for i = 2, 100000 do
  if not composite[i] then
    primes = primes + 1
    for j = i * i, 100000, i do composite[j] = true end
  end
end
check("primes below 100000", primes, 9592)

-- The eight queens, by backtracking with closures.
local function queens(n)
  local solutions, columns, up, down = 0, {}, {}, {}
  local function place(row)
    if row > n then solutions = solutions + 1 return end
    for c = 1, n do
      if not (columns[c] or up[row + c] or down[row - c + n]) then
        columns[c], up[row + c], down[row - c + n] = true, true, true
        place(row + 1)
        columns[c], up[row + c], down[row - c + n] = nil, nil, nil
      end
    end
  end
  place(1)
  return solutions
end
check("queens(8)", queens(8), 92)

-- Coroutines: a generator of permutations.
local function permutations(a)
  local function generate(n)
    if n == 0 then coroutine.yield(table.concat(a)) end
    for i = 1, n do
      a[i], a[n] = a[n], a[i]
      generate(n - 1)
      a[i], a[n] = a[n], a[i]
    end
  end
  return coroutine.wrap(function() generate(#a) end)
end
local seen, count = {}, 0
for p in permutations({ "a", "b", "c", "d", "e" }) do seen[p] = true end
for _ in pairs(seen) do count = count + 1 end
check("permutations of 5", count, 120)

-- Errors: protected calls, error objects, messages with positions, tracebacks.
local ok, message = pcall(function() local t = nil; return t.x end)
check("pcall", ok, false)
check("message", message:match(":%d+: (.*)$"), "attempt to index a nil value (local 't')")
local object = setmetatable({}, { __tostring = function() return "an error object" end })
check("error object", select(2, pcall(error, object)), object)
local trace = select(2, xpcall(function() error("deep") end, debug.traceback))
check("traceback", trace:find("stack traceback:", 1, true) ~= nil, true)
-- Unwinding from deep in C and Lua frames, by longjmp.
local function recurse() return recurse() + 1 end
check("stack overflow", select(2, pcall(recurse)):match("stack overflow") ~= nil, true)
check("sort error", (select(2, pcall(table.sort, { 3, 1, "x" })):gsub("^.-: ", "")) ~= "", true)

-- Strings: patterns, formats, packing.
check("gsub", (("hello world"):gsub("o", { o = "0" })), "hell0 w0rld")
check("format", string.format("%5.2f|%-6s|%06d|%x|%q|%a", math.pi, "ab", 42, 255, "a\nb", 1.0),
  " 3.14|ab    |000042|ff|\"a\\\nb\"|0x1p+0")
check("pack", string.unpack("<i4", string.pack("<i4", -123456)), -123456)
check("words", select(2, ("the quick brown fox"):gsub("%a+", "")), 4)
check("utf8", utf8.len("naïve café"), 10)
check("rep", #string.rep("ab", 1000, ","), 2999)

-- Numbers: integers wrap, floats do not; mathematics comes from libm.
check("wrap", math.maxinteger + 1, math.mininteger)
check("division", 7 // -2, -4)
check("modulo", 5.5 % -2, -0.5)
check("shift", 1 << 62 >> 60, 4)
check("tointeger", math.tointeger(3.0), 3)
check("sine", string.format("%.12f", math.sin(1) ^ 2 + math.cos(1) ^ 2), "1.000000000000")
check("log", math.floor(math.log(1024, 2) + 0.5), 10)

-- Metatables, inheritance, multiple returns, closures, goto.
local Stack = {}
Stack.__index = Stack
Stack.__len = function(s) return s.n end
Stack.__concat = function(a, b) return tostring(a) .. "+" .. tostring(b) end
Stack.__tostring = function(s) return "stack of " .. #s end
Stack.__close = function(s) s.n = -1 end
function Stack.new() return setmetatable({ n = 0 }, Stack) end
function Stack:push(...)
  for _, v in ipairs({ ... }) do self.n = self.n + 1; self[self.n] = v end
  return self
end
local s = Stack.new():push(1, 2, 3)
check("length", #s, 3)
check("concat", s .. "x", "stack of 3+x")
do local closing <close> = s end
check("close", s.n, -1)
local i = 0
::again:: i = i + 1
if i < 10 then goto again end
check("goto", i, 10)

-- Garbage: a lot of it, weak tables, finalizers.
local weak, finalized = setmetatable({}, { __mode = "v" }), 0
for n = 1, 20000 do
  weak[n] = setmetatable({ string.rep("x", n % 50) }, { __gc = function() finalized = finalized + 1 end })
end
collectgarbage() collectgarbage()
check("finalized", finalized, 20000)
check("weak", next(weak), nil)
collectgarbage("generational")
local sum = 0
for n = 1, 50000 do local t = { n, { n } } sum = sum + t[2][1] end
check("generational", sum, 1250025000)

-- Sorting with a comparison, and loading code at run time.
local numbers, seed = {}, 42
for n = 1, 2000 do
  seed = (seed * 1103515245 + 12345) % 2147483648
  numbers[n] = seed
end
table.sort(numbers, function(a, b) return a > b end)
local sorted = true
for n = 2, #numbers do sorted = sorted and numbers[n - 1] >= numbers[n] end
check("sorted", sorted, true)
check("load", load("local a, b = ... return a * b")(6, 7), 42)
check("dump", load(string.dump(function(x) return x + 1 end))(1), 2)

-- Files and the system.
local name = os.tmpname()
local file = assert(io.open(name, "w"))
file:write("one\n", 2, "\n", 3.5, "\n")
file:close()
local lines = {}
for line in io.lines(name) do lines[#lines + 1] = line end
check("lines", table.concat(lines, ","), "one,2,3.5")
check("remove", os.remove(name), true)
check("date", os.date("!%Y-%m-%d", 86400 * 365), "1971-01-01")
local pipe = io.popen("echo from a shell")
check("popen", pipe:read("l"), "from a shell")
pipe:close()
check("require", pcall(require, "no.such.module"), false)
check("arguments", table.concat({ ... }, ","), table.concat(arg, ","))
