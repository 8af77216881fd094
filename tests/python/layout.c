/* The structures of include/darknet.h: each with its size, each member with its offset and size, for net.py. */
#include <stdio.h>
#include <darknet.h>

#define STRUCT(s) printf("%s %zu\n", #s, sizeof(dn_##s))
#define MEMBER(s, m) printf("%s.%s %zu %zu\n", #s, #m, offsetof(dn_##s, m), sizeof((dn_##s *)0)->m)

int main(void)
{
#include "layout.inc"
    printf("version %s\n", DN_VERSION);
    return 0;
}
