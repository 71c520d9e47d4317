/*
 * Pinned memory has an owner that gives it to the C library, whose free ends the program.
 *
 * finds: invalid-free (error)
 * offence: called free in main at OFFENCE
 * other: allocated aclrtMallocHost in pinned at ALLOCATED
 * bytes: 0+1000 of pinned 1000
 */
#include "program.h"

constexpr size_t kSize = 1000;

static char *pinned()
{
    void *memory;
    ACL(aclrtMallocHost(&memory, kSize)); // ALLOCATED
    return static_cast<char *>(memory);
}

#ifdef FIXED
static void give_back(void *memory) { ACL(aclrtFreeHost(memory)); }
#else
#define give_back free
#endif

int main()
{
    aclrtStream stream = start();
    char *memory = pinned();
    memset(memory, 1, kSize);
    give_back(memory); // OFFENCE
    finish(stream);
}
