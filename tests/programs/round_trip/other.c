/* The other half of features.c. */
__thread int other_thread = 35;
extern int common_array[8];
int overridden(void) { return 2; }
int other(int x) { return x * 2 + common_array[0]; }
const char *other_string(void) { return "a string that other.c has, too"; }
