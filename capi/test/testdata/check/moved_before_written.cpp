/*
 * A block moves on the device before its contents came up.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtMemcpyAsync in move at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

constexpr size_t kBlock = 4096;

static void move(void *to, void *from, aclrtStream stream)
{
    ACL(aclrtMemcpyAsync(to, kBlock, from, kBlock, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)); // OFFENCE
}

int main()
{
    aclrtStream stream = start();
    void *host, *here, *there;
    ACL(aclrtMallocHost(&host, kBlock));
    ACL(aclrtMalloc(&here, kBlock, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
    ACL(aclrtMalloc(&there, kBlock, ACL_MEM_MALLOC_HUGE_FIRST));
#ifndef FIXED
    move(there, here, stream);
#endif
    ACL(aclrtMemcpyAsync(here, kBlock, host, kBlock, ACL_MEMCPY_HOST_TO_DEVICE, stream));
#ifdef FIXED
    move(there, here, stream);
#endif
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(here));
    ACL(aclrtFree(there));
    finish(stream);
}
