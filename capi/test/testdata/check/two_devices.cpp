/*
 * Device 1 fetches what device 0 is still writing. Streams of two devices know of each other as little as those of one.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 3, task 1
 * other: submitted aclrtMemsetAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+8192 of device 8192
 */
#include "program.h"

constexpr size_t kSize = 8192;

int main()
{
    aclrtStream first = start(), second;
    aclrtEvent written;
    void *there, *here;
    ACL(aclrtMalloc(&there, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
    ACL(aclrtMemset(there, kSize, 0, kSize));
    ACL(aclrtCreateEventExWithFlag(&written, ACL_EVENT_SYNC));
    ACL(aclrtMemsetAsync(there, kSize, 1, kSize, first)); // SUBMIT
    ACL(aclrtRecordEvent(written, first));

    ACL(aclrtSetDevice(1));
    ACL(aclrtDeviceEnablePeerAccess(0, 0));
    ACL(aclrtCreateStream(&second));
    ACL(aclrtMalloc(&here, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
    ACL(aclrtStreamWaitEvent(second, written));
#endif
    ACL(aclrtMemcpyAsync(here, kSize, there, kSize, ACL_MEMCPY_DEVICE_TO_DEVICE, second)); // OFFENCE

    ACL(aclrtSynchronizeStream(second));
    ACL(aclrtDestroyStream(second));
    ACL(aclrtFree(here));
    ACL(aclrtResetDevice(1));
    ACL(aclrtSetDevice(0));
    ACL(aclrtSynchronizeStream(first));
    ACL(aclrtDestroyEvent(written));
    ACL(aclrtFree(there));
    ACL(aclrtResetDevice(0));
    finish(first);
}
