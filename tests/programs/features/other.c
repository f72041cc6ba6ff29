/* The second unit of the executable: definitions that main.c refers to. */
#include "features.h"

__thread int other_tls = 30;
__thread char other_tls_zero[100];
int common_variable; /* with -fcommon, as in main.c */
int aligned_data __attribute__((aligned(4096))) = 5;

__attribute__((weak)) int weak_function(void) { return 1; }

int aliased(int value) { return value + 1000; }
int alias_of_it(int value) __attribute__((alias("aliased")));

static int twice(int value) { return value * 2; }
static int square(int value) { return value * value; }
static int negate(int value) { return -value; }
static int (*const table[])(int) = {twice, square, negate};
int through_table(int selector, int value) { return table[selector](value); }

/* "tail of a long string" may be merged with the end of the first. */
const char *longer_string(void) { return "this is the tail of a long string"; }
const char *other_string(void) { return "tail of a long string"; }

static int plus_one(int value) { return value + 1; }
static int plus_two(int value) { return value + 2; }
static int (*choose(void))(int) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse2") ? plus_one : plus_two;
}
int chosen(int value) __attribute__((ifunc("choose")));
static int (*const chosen_pointer)(int) = chosen;
int run_ifunc(int value) { return chosen(value) * 10 + chosen_pointer(value); }

/* A section whose name is an identifier: __start_ and __stop_. */
__attribute__((section("members"), used)) static int member_one = 1;
__attribute__((section("members"), used)) static int member_two = 20;
__attribute__((section("members"), used)) static int member_three = 300;
extern int __start_members[], __stop_members[];
int section_members(void) {
  int sum = 0;
  for (int *member = __start_members; member < __stop_members; member++) sum += *member;
  return sum;
}
