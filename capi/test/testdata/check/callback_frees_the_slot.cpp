/*
 * A callback says that a staging slot may be filled again. It was launched before the copy that empties the slot.
 *
 * finds: host-write-in-flight (error)
 * offence: written in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 2
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+4 of pinned 2048
 */
#include <pthread.h>

#include "program.h"

constexpr size_t kSize = 2048;

static void slot_is_free(void *flag)
{
    *static_cast<bool *>(flag) = true;
}

int main()
{
    aclrtStream stream = start();
    void *slot, *device;
    bool free_again = false;
    ACL(aclrtMallocHost(&slot, kSize)); // ALLOCATED
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), stream));

#ifndef FIXED
    ACL(aclrtLaunchCallback(slot_is_free, &free_again, ACL_CALLBACK_NO_BLOCK, stream));
#endif
    ACL(aclrtMemcpyAsync(device, kSize, slot, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
    ACL(aclrtLaunchCallback(slot_is_free, &free_again, ACL_CALLBACK_NO_BLOCK, stream));
#endif
    while (!free_again)
        aclrtProcessReport(1000);
    *static_cast<volatile int *>(slot) = 1; // OFFENCE

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtUnSubscribeReport(static_cast<uint64_t>(pthread_self()), stream));
    ACL(aclrtFreeHost(slot));
    ACL(aclrtFree(device));
    finish(stream);
}
