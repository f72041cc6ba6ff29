/* The features of C that a linker has to get right; each line of the output is
 * one of them. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "features.h"

__thread int main_tls = 11;
static __thread long local_tls[4] = {1, 2, 3, 4};
int common_variable; /* with -fcommon, as in other.c */

extern int missing_weak(void) __attribute__((weak));
extern int missing_weak_data __attribute__((weak));

static int order[8], ordered;
__attribute__((constructor(201))) static void second(void) { order[ordered++] = 2; }
__attribute__((constructor(101))) static void first(void) { order[ordered++] = 1; }
__attribute__((constructor)) static void third(void) { order[ordered++] = 3; }
__attribute__((destructor(101))) static void last(void) { puts("destructor 101"); }
__attribute__((destructor(201))) static void before_last(void) { puts("destructor 201"); }
static void at_exit(void) { puts("atexit"); }

int executable_callback(int value) { return value * 2; }

/* Overrides the library's definition, also for the library itself. */
int library_overridable(void) { return 2; }

static void *thread_main(void *argument) {
  long *sum = argument;
  main_tls += 1;
  other_tls += 2;
  local_tls[3] += main_tls + other_tls;
  library_tls += 5;
  *sum = local_tls[3] * 1000 + library_tls + other_tls_zero[99];
  return NULL;
}

/* A computed goto: addresses of labels in data. */
static int interpret(const char *program) {
  static const void *const labels[] = {&&add, &&sub, &&stop};
  int value = 0;
  goto *labels[*program - 'a'];
add:
  value += 10;
  goto *labels[*++program - 'a'];
sub:
  value -= 3;
  goto *labels[*++program - 'a'];
stop:
  return value;
}

/* A dense switch: a jump table in most compilers. */
static const char *in_words(int number) {
  switch (number) {
    case 0: return "zero";
    case 1: return "one";
    case 2: return "two";
    case 3: return "three";
    case 4: return "four";
    case 5: return "five";
    case 6: return "six";
    default: return "many";
  }
}

static void from_static_storage(void);
static void (*const static_pointer)(void) = from_static_storage;
static void from_static_storage(void) { puts("static pointer"); }

int main(int count, char **words) {
  atexit(at_exit);
  printf("constructors %d%d%d\n", order[0], order[1], order[2]);
  printf("library variable %d %d\n", library_variable, &library_variable == library_variable_address());
  library_variable = 7;
  printf("written %d\n", *library_variable_address());
  printf("library name %s\n", library_name);
  printf("call %d\n", library_call(executable_callback, 21));
  printf("function address %d\n", library_function_address() == library_function);
  printf("through it %d\n", library_function_address()(1));
  printf("overridden %d %d\n", library_overridable(), library_calls_overridable());
  printf("weak %d %d %d\n", missing_weak == NULL, &missing_weak_data == NULL, weak_function());
  printf("common %d\n", common_variable);
  /* A compiler may believe that two names are two functions. */
  int (*volatile one)(int) = aliased, (*volatile other)(int) = alias_of_it;
  printf("alias %d %d %d\n", aliased(3), alias_of_it(4), one == other);
  printf("table %d %d %d\n", through_table(0, 5), through_table(1, 5), through_table(2, 5));
  printf("strings %d %s\n", strcmp(other_string(), "tail of a long string") == 0, other_string() + 5);
  printf("ifunc %d %d\n", run_ifunc(4), library_ifunc(5));
  printf("section %d\n", section_members());
  printf("aligned %d\n", (int)((uintptr_t)&aligned_data % 4096));
  printf("goto %d %s %s\n", interpret("aabac"), in_words(count + 2), in_words(40));
  static_pointer();

  pthread_t threads[3];
  long sums[3];
  main_tls = 100;
  library_tls = 50;
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, thread_main, &sums[i]);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  printf("threads %ld %ld %ld\n", sums[0], sums[1], sums[2]);
  printf("main's %d %d %d %ld %d\n", main_tls, other_tls, library_tls, local_tls[3], *library_tls_address());
  printf("argument %s\n", count > 1 ? words[1] : "none");
  printf("environment %s\n", getenv("FEATURES"));
  fflush(stdout);
  return 42;
}
