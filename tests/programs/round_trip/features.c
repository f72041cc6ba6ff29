/* What C and GNU C can put into an object file, in one program that prints what it
 * finds. Linked with other.c. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

extern int other(int);
extern const char *other_string(void);
extern __thread int other_thread;
extern int common_array[8];
int common_array[8];

/* Weak: not defined anywhere, and defined here and overridden there. */
extern void nowhere(void) __attribute__((weak));
__attribute__((weak)) int overridden(void) { return 1; }

/* Aliases in the middle of things. */
int first_name(int x) { return x * 3 + 1; }
extern int second_name(int) __attribute__((alias("first_name")));
extern int weak_name(int) __attribute__((weak, alias("first_name")));
static int table[4] = {10, 20, 30, 40};
extern int table_alias[4] __attribute__((alias("table")));
asm(".globl table_third\n.set table_third, table_alias + 8\n.globl answer\n.set answer, 42");
extern int table_third[];
asm(".data\nanswer_value: .quad answer\n.text");
extern const size_t answer_value; /* an absolute symbol's value, through a relocation */

/* Thread-local, both kinds. */
static __thread int counter = 7;
static __thread char buffer[100];

/* IFUNC. */
static int chosen(int x) { return x + 1000; }
static int (*resolve(void))(int) { return chosen; }
int indirect(int) __attribute__((ifunc("resolve")));

/* Constructors in order of priority, and an array with boundary symbols. */
static char order[16];
static void note(char c) { order[strlen(order)] = c; }
__attribute__((constructor(300))) static void late(void) { note('c'); }
__attribute__((constructor(101))) static void early(void) { note('a'); }
__attribute__((constructor(200))) static void middle(void) { note('b'); }
__attribute__((constructor)) static void plain(void) { note('d'); }
__attribute__((destructor)) static void gone(void) { puts("destructor"); }
struct entry { const char *name; int (*call)(int); };
#define ENTRY(n, f) \
    static const struct entry entry_##n __attribute__((used, retain, section("entries"))) = {#n, f}
ENTRY(one, first_name);
ENTRY(two, other);
extern const struct entry __start_entries[], __stop_entries[];

/* Same code under another name; a function that refers to itself. */
static __attribute__((noinline)) int twin_a(int x) { return x ^ 0x55; }
static __attribute__((noinline)) int twin_b(int x) { return x ^ 0x55; }
static __attribute__((noinline)) int depth(int n) { return n < 2 ? n : depth(n - 1) + depth(n - 2); }

/* Hot and cold parts. */
__attribute__((cold, noinline)) static int unlikely_path(int x) { return printf("cold %d\n", x); }

static const char *word(int n) {
    switch (n) { /* a jump table, or a table of strings */
    case 0: return "zero";
    case 1: return "one";
    case 2: return "two";
    case 3: return "three";
    case 4: return "four";
    case 5: return "five";
    case 6: return "a string that other.c has, too";
    default: return "many";
    }
}

static int interpret(const unsigned char *code) {
    static const void *const labels[] = {&&add, &&twice, &&end}; /* addresses of labels */
    int value = 0;
#define NEXT goto *labels[*code++]
    NEXT;
add: value += 5; NEXT;
twice: value *= 2; NEXT;
end: return value;
}

static int dispatch(int n, int x) {
    switch (n) {
    case 0: return x + other(x);
    case 1: return x * first_name(x);
    case 2: return x - indirect(x);
    case 3: return twin_a(x) + depth(x & 7);
    case 4: return twin_b(x) / 3;
    case 5: return unlikely_path(x);
    case 6: return overridden();
    default: return -1;
    }
}

int *const pointer_to_middle = &common_array[3];
const char *const inside = &"outside inside"[8];
static const double constants[] = {1.5, 2.5, 1e300};
_Alignas(256) static char aligned[256];

int main(void) {
    printf("%s %d %s\n", order, other(4), other_string());
    printf("%d %d %d %d\n", second_name(2), weak_name(3), table_alias[1], table_third[0]);
    printf("%zu %d\n", answer_value, nowhere == NULL);
    counter += other_thread;
    buffer[99] = 'x';
    printf("%d %c %d\n", counter, buffer[99], buffer[0]);
    common_array[3] = 12;
    printf("%d %s %d\n", *pointer_to_middle, inside, (int)((uintptr_t)aligned % 256));
    for (const struct entry *e = __start_entries; e < __stop_entries; e++)
        printf("%s %d\n", e->name, e->call(3));
    for (int i = 0; i < 8; i++)
        printf("%s %d\n", word(i), dispatch(i, i + 2));
    printf("%d\n", interpret((const unsigned char[]){0, 1, 0, 2}));
    printf("%.3f %.3Lf %.2f\n", constants[1] * table[0], 3.125L + counter, 0.1f * counter);
    printf("%ls %zu %zu\n", L"wide", sizeof u"sixteen", wcslen(L"\u00e9t\u00e9"));
    return 0;
}
