/* A small shell for SQLite (the bundled amalgamation comes without shell.c):
 *
 *     sqlite DATABASE [SQL]
 *
 * runs the statements of SQL, or of standard input, and prints the rows with
 * their values separated by '|'. An error is reported with its statement; the
 * rest is still run and the exit code is 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"

/* All of standard input as a string; exits when there is no memory. */
static char *read_input(void) {
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  while (text != NULL) {
    size += fread(text + size, 1, room - size - 1, stdin);
    if (size + 1 < room) {
      text[size] = 0;
      return text;
    }
    room *= 2;
    char *larger = realloc(text, room);
    if (larger == NULL) free(text);
    text = larger;
  }
  fprintf(stderr, "sqlite: out of memory\n");
  exit(2);
}

static void print_value(sqlite3_stmt *statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
      break;
    case SQLITE_BLOB: {
      const unsigned char *bytes = sqlite3_column_blob(statement, column);
      for (int i = 0; i < sqlite3_column_bytes(statement, column); i++) printf("%02x", bytes[i]);
      break;
    }
    default:
      fputs((const char *)sqlite3_column_text(statement, column), stdout);
  }
}

/* Runs the first statement of *rest and moves *rest behind it. */
static int run_statement(sqlite3 *database, const char **rest) {
  const char *start = *rest;
  sqlite3_stmt *statement;
  int status = sqlite3_prepare_v2(database, start, -1, &statement, rest);
  if (status == SQLITE_OK && statement != NULL) {
    while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
      for (int i = 0; i < sqlite3_column_count(statement); i++) {
        if (i > 0) putchar('|');
        print_value(statement, i);
      }
      putchar('\n');
    }
    status = sqlite3_finalize(statement);
  }
  if (status != SQLITE_OK) {
    start += strspn(start, " \n");
    int length = (int)strcspn(start, "\n;");
    fprintf(stdout, "error: %s: %.*s\n", sqlite3_errmsg(database), length, start);
    if (*rest <= start) *rest = start + strlen(start);
    return 1;
  }
  return 0;
}

/* SQL function fnv1a(X): a callback from the library into the program. */
static void fnv1a(sqlite3_context *context, int count, sqlite3_value **values) {
  const unsigned char *bytes = sqlite3_value_blob(values[0]);
  sqlite3_uint64 hash = 0xcbf29ce484222325u;
  (void)count;
  for (int i = 0; i < sqlite3_value_bytes(values[0]); i++) {
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  sqlite3_result_int64(context, (sqlite3_int64)hash);
}

int main(int count, char **words) {
  if (count < 2 || count > 3) {
    fprintf(stderr, "usage: sqlite DATABASE [SQL]\n");
    return 2;
  }
  sqlite3 *database;
  if (sqlite3_open(words[1], &database) != SQLITE_OK) {
    fprintf(stderr, "sqlite: cannot open %s: %s\n", words[1], sqlite3_errmsg(database));
    return 2;
  }
  sqlite3_create_function(database, "fnv1a", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, fnv1a,
                          NULL, NULL);
  char *input = count == 3 ? NULL : read_input();
  const char *rest = count == 3 ? words[2] : input;
  int failed = 0;
  while (*rest != 0) failed |= run_statement(database, &rest);
  free(input);
  return sqlite3_close(database) != SQLITE_OK || failed;
}
