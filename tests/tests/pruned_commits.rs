//! Twenty commits to one program, as people make them: a feature, a fix, a rename, a header, a revert. After each, what has changed is compiled in
//! parts, the program linked incrementally, and all that the commits so far have promised is tested.

use repo_tests::binaries::{self, Binaries};
use repo_tests::process::run;
use repo_tests::programs;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};

struct Commit {
    what: &'static str,
    /// Files, what is there, and what stands there then.
    edits: &'static [(&'static str, &'static str, &'static str)],
    /// In Lua: what holds from now on; and what does no longer.
    promise: &'static str,
    ends: &'static str,
}

const fn commit(
    what: &'static str,
    edits: &'static [(&'static str, &'static str, &'static str)],
    promise: &'static str,
) -> Commit {
    Commit {
        what,
        edits,
        promise,
        ends: "",
    }
}

const TYPE_ERROR: &str = "assert(not pcall(string.rep, {}, 2))";
const NOT_EQUAL: &str = "assert(load('return 1 != 2')() == true)";

const COMMITS: [Commit; 20] = [
    commit(
        "string.trim",
        &[
            (
                "lstrlib.c",
                "static int str_reverse (lua_State *L) {",
                "static int str_trim (lua_State *L) {\n  size_t l;\n  const char *s = luaL_checklstring(L, 1, &l);\n\
                 \x20 while (l > 0 && (*s == ' ' || *s == '\\t')) { s++; l--; }\n  while (l > 0 && (s[l - 1] == ' ' || s[l - 1] == '\\t')) l--;\n\
                 \x20 lua_pushlstring(L, s, l);\n  return 1;\n}\n\nstatic int str_reverse (lua_State *L) {",
            ),
            (
                "lstrlib.c",
                "{\"upper\", str_upper},",
                "{\"trim\", str_trim},\n  {\"upper\", str_upper},",
            ),
        ],
        "assert(('  a b '):trim() == 'a b')",
    ),
    commit(
        "string.trim: a helper for what is white, and new lines are",
        &[
            (
                "lstrlib.c",
                "static int str_trim (lua_State *L) {",
                "static int is_white (char c) { return c == ' ' || c == '\\t' || c == '\\n' || c == '\\r'; }\n\nstatic int str_trim (lua_State *L) {",
            ),
            ("lstrlib.c", "(*s == ' ' || *s == '\\t')", "is_white(*s)"),
            (
                "lstrlib.c",
                "(s[l - 1] == ' ' || s[l - 1] == '\\t')",
                "is_white(s[l - 1])",
            ),
        ],
        "assert(('\\n a\\r\\n'):trim() == 'a')",
    ),
    commit(
        "string.startswith",
        &[
            (
                "lstrlib.c",
                "static int str_reverse (lua_State *L) {",
                "static int str_startswith (lua_State *L) {\n  size_t l, p;\n  const char *s = luaL_checklstring(L, 1, &l);\n\
                 \x20 const char *prefix = luaL_checklstring(L, 2, &p);\n  lua_pushboolean(L, p <= l && memcmp(s, prefix, p) == 0);\n  return 1;\n}\n\n\
                 static int str_reverse (lua_State *L) {",
            ),
            (
                "lstrlib.c",
                "{\"trim\", str_trim},",
                "{\"startswith\", str_startswith},\n  {\"trim\", str_trim},",
            ),
        ],
        "assert(('abc'):startswith('ab') and not ('abc'):startswith('abcd'))",
    ),
    commit(
        "A clearer message",
        &[(
            "lstrlib.c",
            "\"resulting string too large\"",
            "\"the result would be too large\"",
        )],
        "local ok, why = pcall(string.rep, 'x', 1 << 62); assert(not ok and why:find('would be'))",
    ),
    commit(
        "math.sign",
        &[
            (
                "lmathlib.c",
                "static int math_fmod (lua_State *L) {",
                "static int math_sign (lua_State *L) {\n  lua_Number n = luaL_checknumber(L, 1);\n  lua_pushinteger(L, n > 0 ? 1 : n < 0 ? -1 : 0);\n  return 1;\n}\n\n\
                 static int math_fmod (lua_State *L) {",
            ),
            (
                "lmathlib.c",
                "{\"abs\",   math_abs},",
                "{\"abs\",   math_abs},\n  {\"sign\",  math_sign},",
            ),
        ],
        "assert(math.sign(-3.5) == -1 and math.sign(0) == 0 and math.sign(9) == 1)",
    ),
    commit(
        "A comment in a header that all include",
        &[(
            "luaconf.h",
            "#define LUA_IDSIZE\t60",
            "/* Long enough for most paths. */\n#define LUA_IDSIZE\t60",
        )],
        "",
    ),
    commit(
        "Longer names of sources in messages: a structure grows",
        &[(
            "luaconf.h",
            "#define LUA_IDSIZE\t60",
            "#define LUA_IDSIZE\t120",
        )],
        "assert(debug.getinfo(load('return 1', '=' .. ('n'):rep(100)), 'S').short_src == ('n'):rep(100))",
    ),
    commit(
        "A constant of the collector",
        &[(
            "lgc.h",
            "#define LUAI_GCPAUSE    200",
            "#define LUAI_GCPAUSE    180",
        )],
        "assert(collectgarbage('setpause', 180) == 180)",
    ),
    commit(
        "The lexer knows != as well",
        &[(
            "llex.c",
            "      case '~': {\n        next(ls);",
            "      case '!': {\n        next(ls);\n        if (check_next1(ls, '=')) return TK_NE;  /* '!=' */\n        else return '!';\n      }\n\
             \x20     case '~': {\n        next(ls);",
        )],
        NOT_EQUAL,
    ),
    commit(
        "A message names both values",
        &[(
            "ldebug.c",
            "\"attempt to compare %s with %s\"",
            "\"attempt to compare a %s with a %s\"",
        )],
        "local ok, why = pcall(function() return 1 < {} end); assert(not ok and why:find('a number with a table'))",
    ),
    commit(
        "table.count",
        &[
            (
                "ltablib.c",
                "static int tunpack (lua_State *L) {",
                "static int tcount (lua_State *L) {\n  static lua_Integer calls;\n  lua_Integer n = 0;\n  luaL_checktype(L, 1, LUA_TTABLE);\n  lua_pushnil(L);\n\
                 \x20 while (lua_next(L, 1)) { n++; lua_pop(L, 1); }\n  lua_pushinteger(L, n);\n  lua_pushinteger(L, ++calls);\n  return 2;\n}\n\n\
                 static int tunpack (lua_State *L) {",
            ),
            (
                "ltablib.c",
                "{\"unpack\", tunpack},",
                "{\"count\", tcount},\n  {\"unpack\", tunpack},",
            ),
        ],
        "assert(table.count {1, 2, x = 3} == 3)\nlocal _, calls = table.count {}; assert(select(2, table.count {}) == calls + 1)",
    ),
    commit(
        "A new function of the interface, in a header that all include",
        &[
            (
                "lua.h",
                "LUA_API void  (lua_rotate) (lua_State *L, int idx, int n);",
                "LUA_API void  (lua_rotate) (lua_State *L, int idx, int n);\nLUA_API void  (lua_swap) (lua_State *L);",
            ),
            (
                "lapi.c",
                "LUA_API void lua_rotate (lua_State *L, int idx, int n) {",
                "LUA_API void lua_swap (lua_State *L) {\n  lua_rotate(L, -2, 1);\n}\n\n\nLUA_API void lua_rotate (lua_State *L, int idx, int n) {",
            ),
        ],
        "",
    ),
    commit(
        "It is used: table.count says first how often it was called",
        &[(
            "ltablib.c",
            "  lua_pushinteger(L, ++calls);\n  return 2;",
            "  lua_pushinteger(L, ++calls);\n  lua_swap(L);\n  lua_swap(L);\n  return 2;",
        )],
        "assert(table.count {1} == 1)",
    ),
    Commit {
        what: "Revert: the lexer knows != as well",
        edits: &[(
            "llex.c",
            "      case '!': {\n        next(ls);\n        if (check_next1(ls, '=')) return TK_NE;  /* '!=' */\n        else return '!';\n      }\n",
            "",
        )],
        promise: "assert(not load('return 1 != 2'))",
        ends: NOT_EQUAL,
    },
    commit(
        "Comparisons of numbers: the common case first",
        &[(
            "lvm.c",
            "l_sinline int LTnum (const TValue *l, const TValue *r) {\n  lua_assert(ttisnumber(l) && ttisnumber(r));",
            "l_sinline int LTnum (const TValue *l, const TValue *r) {\n  lua_assert(ttisnumber(l) && ttisnumber(r));\n\
             \x20 if (l_likely(ttisinteger(l) && ttisinteger(r)))\n    return ivalue(l) < ivalue(r);",
        )],
        "assert(1 < 2 and 1 < 1.5 and not (2.5 < 2) and math.mininteger < math.maxinteger)",
    ),
    commit(
        "math.abs: one branch less",
        &[(
            "lmathlib.c",
            "if (n < 0) n = (lua_Integer)(0u - (lua_Unsigned)n);",
            "n = n < 0 ? (lua_Integer)(0u - (lua_Unsigned)n) : n;",
        )],
        "assert(math.abs(-7) == 7 and math.abs(math.mininteger) == math.mininteger and math.abs(-1.5) == 1.5)",
    ),
    commit(
        "utf8.len counts its calls: a variable of the file that two functions share",
        &[
            (
                "lutf8lib.c",
                "static int utflen (lua_State *L) {",
                "static lua_Integer asked = 0;\n\nstatic int utfasked (lua_State *L) {\n  lua_pushinteger(L, asked);\n  return 1;\n}\n\nstatic int utflen (lua_State *L) {",
            ),
            (
                "lutf8lib.c",
                "  int lax = lua_toboolean(L, 4);\n  luaL_argcheck(L, 1 <= posi && --posi <= (lua_Integer)len, 2,\n                   \"initial",
                "  int lax = lua_toboolean(L, 4);\n  asked++;\n  luaL_argcheck(L, 1 <= posi && --posi <= (lua_Integer)len, 2,\n                   \"initial",
            ),
            (
                "lutf8lib.c",
                "{\"len\", utflen},",
                "{\"asked\", utfasked},\n  {\"len\", utflen},",
            ),
        ],
        "local before = utf8.asked(); assert(utf8.len('äöü') == 3 and utf8.asked() == before + 1)",
    ),
    commit(
        "The variable begins elsewhere",
        &[(
            "lutf8lib.c",
            "static lua_Integer asked = 0;",
            "static lua_Integer asked = 1000;",
        )],
        "assert(utf8.asked() >= 1000)",
    ),
    commit(
        "A rename",
        &[
            (
                "lstrlib.c",
                "static int is_white (char c)",
                "static int is_blank (char c)",
            ),
            ("lstrlib.c", "is_white(*s)", "is_blank(*s)"),
            ("lstrlib.c", "is_white(s[l - 1])", "is_blank(s[l - 1])"),
        ],
        TYPE_ERROR,
    ),
    commit(
        "A version of its own",
        &[(
            "lstrlib.c",
            "{\"trim\", str_trim},",
            "{\"strip\", str_trim},\n  {\"trim\", str_trim},",
        )],
        "assert(string.strip == string.trim and _VERSION == 'Lua 5.4')",
    ),
];

/// More that must hold at all times: closures, coroutines, errors, patterns, metamethods, numbers, the collector.
const ALWAYS: &str = r#"
local t = setmetatable({}, {__index = function(_, k) return k * 2 end, __call = function(_, a) return a + 1 end})
assert(t[21] == 42 and t(1) == 2)
local co = coroutine.wrap(function(a) for i = 1, a do coroutine.yield(i) end return 'end' end)
assert(co(2) == 1 and co() == 2 and co() == 'end')
assert(('key = value'):match('(%w+)%s*=%s*(%w+)') == 'key' and ('abc'):gsub('%w', '%0%0') == 'aabbcc')
local ok, why = pcall(error, {code = 3}); assert(not ok and why.code == 3)
local sum = 0; for i = 1, 1e5 do sum = sum + i % 7 end; assert(sum == 299997 or sum > 0)
local list = {}; for i = 1, 1000 do list[i] = (i * 7919) % 1009 end; table.sort(list)
for i = 2, #list do assert(list[i - 1] <= list[i]) end
collectgarbage(); assert(string.format('%5.2f|%d|%s|%q', 3.14159, 42, 'x', 'a\n') == ' 3.14|42|x|"a\\\n"')
goto done; error('unreachable') ::done:: print('all is well')
"#;

#[test]
fn twenty_commits_built_in_parts_keep_their_promises() {
    let [clang] = require!("clang-19");
    if binaries::plugin().is_none() {
        return tools::skip("llvm-19-dev");
    }
    let program = programs::lua().expect("the sources are there");
    let scratch = Scratch::new();
    let source = scratch.join("source");
    fs::create_dir_all(&source).expect("a directory");
    let directory = program.sources[0].parent().expect("a directory").to_owned();
    let headers = repo_tests::sources::files(&directory, ".h").expect("headers");
    let mut sources: Vec<PathBuf> = Vec::new();
    for file in program.sources.iter().chain(&headers) {
        let copy = source.join(file.file_name().expect("a name"));
        fs::copy(file, &copy).expect("copied");
        if copy.extension().is_some_and(|end| end == "c") {
            sources.push(copy);
        }
    }
    let level = std::env::var("REPO_TESTS_LEVEL").unwrap_or_else(|_| "-O1".to_owned());
    let mut known = 0;
    let mut build = |changed: &[PathBuf]| {
        for file in changed {
            let mut compile = scratch.command(Binaries::get().path("repo-cc"));
            compile.arg("--verbose").arg(&clang).arg(&level).args([
                "-std=gnu99",
                "-DLUA_USE_LINUX",
                "-c",
            ]);
            compile.arg(file).arg("-o").arg(file.with_extension("o"));
            compile
                .env("REPO_CC_PRUNE", "1")
                .env("REPO_CC_DISABLE", "1");
            let said = run(&mut compile).ok().errors();
            assert!(!said.contains("compiled again, whole"), "{said}");
            let counted = said.split(" definitions new, ").nth(1).unwrap_or_default();
            known += counted
                .split(' ')
                .next()
                .and_then(|n| n.parse::<usize>().ok())
                .unwrap_or(0);
        }
        let mut link = scratch.command(Binaries::get().path("repo-cc"));
        link.arg(&clang).arg("-o").arg(scratch.join("lua"));
        link.args(sources.iter().map(|file| file.with_extension("o")));
        link.args(&program.libraries)
            .env("REPO_LD_INCREMENTAL", "1")
            .env("REPO_LOG", scratch.join("log"));
        run(&mut link).ok();
    };
    build(&sources);
    let mut promises: Vec<&str> = vec![ALWAYS];
    for commit in &COMMITS {
        let mut changed: Vec<PathBuf> = Vec::new();
        for (file, from, to) in commit.edits {
            let path = source.join(file);
            let text = fs::read_to_string(&path).expect("a source");
            assert_eq!(
                text.matches(from).count(),
                1,
                "{}: {file}: {from}",
                commit.what
            );
            fs::write(&path, text.replacen(from, to, 1)).expect("written");
            let is_header = Path::new(file).extension().is_some_and(|end| end == "h");
            changed.extend(if is_header {
                sources.clone()
            } else {
                vec![path]
            });
        }
        changed.sort();
        changed.dedup();
        build(&changed);
        promises.push(commit.promise);
        promises.retain(|promise| commit.ends.is_empty() || *promise != commit.ends);
        for promise in &promises {
            let mut lua = scratch.command(scratch.join("lua"));
            let ran = run(lua.args(["-e", promise]));
            assert!(
                ran.status.success(),
                "{}: {promise}: {}",
                commit.what,
                ran.report()
            );
        }
    }
    assert!(known > 1000, "only {known} definitions were known");
    let log = fs::read_to_string(scratch.join("log")).expect("a log");
    let links = log
        .lines()
        .filter(|line| line.contains("incremental"))
        .count();
    eprintln!("{known} definitions known; {links} lines about incremental links:\n{log}");
}
