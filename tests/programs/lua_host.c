/* A host for Lua's library, in place of lua.c, which the lua-src crate leaves
 * out. It runs what it is given and reports errors with a traceback:
 *
 *     lua -e CODE          run CODE
 *     lua SCRIPT [ARG...]  run a file; `arg` and `...` hold the arguments
 *     lua                  run standard input
 */
#include <stdio.h>
#include <string.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

/* Message handler: appends a traceback to the error message. */
static int traceback(lua_State *state) {
  const char *message = luaL_tolstring(state, 1, NULL);
  luaL_traceback(state, state, message, 1);
  return 1;
}

/* Sets the global table `arg` as lua.c does: the script at index 0. */
static void set_arguments(lua_State *state, int count, char **words, int script) {
  lua_createtable(state, count - script, script + 1);
  for (int i = 0; i < count; i++) {
    lua_pushstring(state, words[i]);
    lua_rawseti(state, -2, i - script);
  }
  lua_setglobal(state, "arg");
}

/* Protected: words[] arrive as light user data, so that memory errors while
 * setting up are reported like all others. */
struct command_line {
  int count;
  char **words;
};

static int run(lua_State *state) {
  const struct command_line *line = lua_touserdata(state, 1);
  int first_argument = 2;
  int status;
  luaL_openlibs(state);
  lua_pushcfunction(state, traceback);
  int handler = lua_gettop(state);
  set_arguments(state, line->count, line->words, line->count > 1 ? 1 : 0);
  if (line->count < 2) {
    status = luaL_loadfile(state, NULL);
  } else if (strcmp(line->words[1], "-e") == 0 && line->count > 2) {
    status = luaL_loadbuffer(state, line->words[2], strlen(line->words[2]), "=(command line)");
    first_argument = 3;
  } else {
    status = luaL_loadfile(state, line->words[1]);
  }
  if (status == LUA_OK) {
    int arguments = 0;
    for (int i = first_argument; i < line->count; i++, arguments++) {
      luaL_checkstack(state, 1, "too many arguments");
      lua_pushstring(state, line->words[i]);
    }
    status = lua_pcall(state, arguments, 0, handler);
  }
  if (status != LUA_OK) {
    return lua_error(state);
  }
  return 0;
}

int main(int count, char **words) {
  struct command_line line = {count, words};
  lua_State *state = luaL_newstate();
  if (state == NULL) {
    fprintf(stderr, "lua: not enough memory\n");
    return 1;
  }
  lua_pushcfunction(state, run);
  lua_pushlightuserdata(state, &line);
  int status = lua_pcall(state, 1, 0, 0);
  if (status != LUA_OK) {
    fprintf(stderr, "lua: %s\n", lua_tostring(state, -1));
  }
  lua_close(state);
  return status == LUA_OK ? 0 : 1;
}
