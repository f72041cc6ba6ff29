/* Overrides the weak definition of other.c. */
int weak_function(void) { return 2; }
