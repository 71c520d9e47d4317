/*
 * Access is one-directional: device 1 may reach device 0, and device 0 does the copy.
 *
 * finds: peer-access (error)
 * offence: called aclrtMemcpyAsync in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 */
#include "program.h"

constexpr size_t kSize = 8192;

int main()
{
    aclrtStream stream = start();
    void *mine, *other;
    ACL(aclrtSetDevice(1));
    ACL(aclrtMalloc(&other, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
    ACL(aclrtSetDevice(0));
    ACL(aclrtDeviceEnablePeerAccess(1, 0));
#else
    ACL(aclrtDeviceEnablePeerAccess(0, 0));
    ACL(aclrtSetDevice(0));
#endif
    ACL(aclrtMalloc(&mine, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(mine, kSize, 7, kSize));
    aclrtMemcpyAsync(other, kSize, mine, kSize, ACL_MEMCPY_DEVICE_TO_DEVICE, stream); // OFFENCE
    ACL(aclrtSynchronizeStream(stream));

    ACL(aclrtFree(mine));
    ACL(aclrtFree(other));
    ACL(aclrtResetDevice(1));
    finish(stream);
}
