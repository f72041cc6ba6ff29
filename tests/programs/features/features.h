/* Shared by the executable and the shared library of the feature program. */
#ifndef FEATURES_H
#define FEATURES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the library. */
extern int library_variable;           /* copied into a non-PIC executable */
extern const char *const library_name; /* constant with a relocation */
extern __thread int library_tls;
int library_call(int (*callback)(int), int value);
int (*library_function_address(void))(int);
int library_function(int value);
int *library_variable_address(void);
int *library_tls_address(void);
int library_overridable(void);
int library_calls_overridable(void);
int library_ifunc(int value);

/* In the executable. */
int executable_callback(int value);

/* In the executable's other unit. */
extern __thread int other_tls;
extern __thread char other_tls_zero[100];
extern int common_variable;
int weak_function(void);
int aliased(int value);
int alias_of_it(int value);
int through_table(int selector, int value);
const char *other_string(void);
int run_ifunc(int value);
int section_members(void);
extern int aligned_data;

#ifdef __cplusplus
}
#endif
#endif
