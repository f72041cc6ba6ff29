/* Uses exports.c as a shared library. */
#include <stdio.h>
int versioned(int), plain(const char *), *data_address(void);
extern int data;
int main(void) {
    data = 9;
    printf("%d %d %d\n", versioned(1), plain("from the library"), *data_address());
    return 0;
}
