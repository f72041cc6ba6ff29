const char *name(void) { return "hallo, Welt"; }
int (*pointer)(int);
