/* A shared library with versioned symbols, hidden ones and thread-local data. */
#include <stdio.h>
static __thread int uses;
__attribute__((visibility("hidden"))) int hidden_helper(int x) { return x + ++uses; }
int versioned_old(int x) { return hidden_helper(x) + 100; }
int versioned_new(int x) { return hidden_helper(x) + 200; }
__asm__(".symver versioned_old, versioned@LIB_1");
__asm__(".symver versioned_new, versioned@@LIB_2");
__attribute__((visibility("protected"))) int plain(const char *text) { return printf("%s\n", text); }
int data = 5;
int *data_address(void) { return &data; }
