/* The shared library; with -DSTATIC_LIBRARY, a part of a static executable. */
#include "features.h"

int library_variable = 6;
const char *const library_name = "the library";
__thread int library_tls = 3;
static __thread int hidden_tls = 4;

int library_call(int (*callback)(int), int value) { return callback(value) + hidden_tls - 4; }
int library_function(int value) { return value + 500; }
int (*library_function_address(void))(int) { return library_function; }
int *library_variable_address(void) { return &library_variable; }
int *library_tls_address(void) { return &library_tls; }
#ifdef STATIC_LIBRARY
__attribute__((weak))
#endif
int library_overridable(void) { return 1; }
int library_calls_overridable(void) { return library_overridable(); }

__attribute__((visibility("hidden"))) int hidden_helper(int value) { return value * 3; }
static int (*choose(void))(int) { return hidden_helper; }
int library_ifunc(int value) __attribute__((ifunc("choose")));
