/*
 * Two owners of one stream: the first one's destructor takes it from the second, whose copy is refused.
 *
 * finds: use-after-free (error)
 * offence: called aclrtMemsetAsync in main at OFFENCE
 * other: freed aclrtDestroyStream in main at FREED
 * other: made aclrtCreateStream in main at ALLOCATED
 */
#include "program.h"

constexpr size_t kSize = 64;

int main()
{
    aclrtStream stream = start(), shared;
    void *device;
    ACL(aclrtCreateStream(&shared)); // ALLOCATED
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
#ifndef FIXED
    ACL(aclrtDestroyStream(shared)); // FREED
#endif
    aclrtMemsetAsync(device, kSize, 0, kSize, shared); // OFFENCE
#ifdef FIXED
    ACL(aclrtSynchronizeStream(shared));
    ACL(aclrtDestroyStream(shared));
#endif
    ACL(aclrtFree(device));
    finish(stream);
}
