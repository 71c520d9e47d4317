/*
 * There is an event between the streams, but it is recorded before the copy it should stand for. (Events of
 * aclrtCreateEventExWithFlag.)
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 2
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 2
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

constexpr size_t kSize = 4096;

int main()
{
    aclrtStream first = start(), second;
    aclrtEvent event;
    void *up, *down, *device;
    ACL(aclrtCreateStream(&second));
    ACL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    ACL(aclrtMallocHost(&up, kSize));
    ACL(aclrtMallocHost(&down, kSize));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
    ACL(aclrtMemset(device, kSize, 0, kSize));

#ifndef FIXED
    ACL(aclrtRecordEvent(event, first));
#endif
    ACL(aclrtMemcpyAsync(device, kSize, up, kSize, ACL_MEMCPY_HOST_TO_DEVICE, first)); // SUBMIT
#ifdef FIXED
    ACL(aclrtRecordEvent(event, first));
#endif
    ACL(aclrtStreamWaitEvent(second, event));
    ACL(aclrtMemcpyAsync(down, kSize, device, kSize, ACL_MEMCPY_DEVICE_TO_HOST, second)); // OFFENCE

    ACL(aclrtSynchronizeDevice());
    ACL(aclrtDestroyStream(second));
    ACL(aclrtDestroyEvent(event));
    ACL(aclrtFreeHost(up));
    ACL(aclrtFreeHost(down));
    ACL(aclrtFree(device));
    finish(first);
}
