#include <string.h>
static int table[] = {1,2,3,4};
int value(int x) { return x * 5 + table[x & 3]; }
int other(int x) { return strlen("abc") + x; }
