/*
 * Pinned memory is freed by the function for device memory.
 *
 * finds: invalid-free (error)
 * offence: called aclrtFree in ~Owner at OFFENCE
 * other: allocated aclrtMallocHost in main at ALLOCATED
 */
#include "program.h"

constexpr size_t kSize = 4096;

struct Owner {
    void *memory;
    ~Owner()
    {
#ifdef FIXED
        ACL(aclrtFreeHost(memory));
#else
        aclrtFree(memory); // OFFENCE
#endif
    }
};

int main()
{
    aclrtStream stream = start();
    void *memory;
    ACL(aclrtMallocHost(&memory, kSize)); // ALLOCATED
    Owner{memory};
#ifndef FIXED
    ACL(aclrtFreeHost(memory)); // so that it is this mistake alone
#endif
    finish(stream);
}
