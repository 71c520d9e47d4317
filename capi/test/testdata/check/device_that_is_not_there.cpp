/*
 * Each worker takes the device with its number, there are fewer devices, and nobody looks: what is left works on the device before.
 *
 * finds: api-error (warning)
 * offence: called aclrtSetDevice in work at OFFENCE
 * count: 2
 */
#include "program.h"

constexpr int kNone = 62; // a number that no device has

static void work(int rank)
{
    void *memory;
    aclrtSetDevice(rank); // OFFENCE
    ACL(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtFree(memory));
}

int main()
{
    aclrtStream stream = start();
#ifndef FIXED
    for (int rank = kNone; rank < kNone + 2; rank++)
        work(rank);
#endif
    work(0);
    ACL(aclrtResetDevice(0));
    finish(stream);
}
