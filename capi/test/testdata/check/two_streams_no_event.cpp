/*
 * Weights go up on one stream and are used on another, and nothing makes the second wait. One of the incidents: "two
 * streams touch a buffer with no event between them".
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+32768 of device 32768
 */
#include "program.h"

constexpr size_t kSize = 32768;

int main()
{
    aclrtStream upload = start(), compute;
    aclrtEvent arrived;
    void *host, *weights, *work;
    ACL(aclrtCreateStream(&compute));
    ACL(aclrtCreateEvent(&arrived));
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&weights, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
    ACL(aclrtMemset(weights, kSize, 0, kSize));
    ACL(aclrtMalloc(&work, kSize, ACL_MEM_MALLOC_HUGE_FIRST));

    ACL(aclrtMemcpyAsync(weights, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
    ACL(aclrtRecordEvent(arrived, upload));
#ifdef FIXED
    ACL(aclrtStreamWaitEvent(compute, arrived));
#endif
    ACL(aclrtMemcpyAsync(work, kSize, weights, kSize, ACL_MEMCPY_DEVICE_TO_DEVICE, compute)); // OFFENCE

    ACL(aclrtSynchronizeStream(upload));
    ACL(aclrtSynchronizeStream(compute));
    ACL(aclrtDestroyStream(compute));
    ACL(aclrtDestroyEvent(arrived));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(weights));
    ACL(aclrtFree(work));
    finish(upload);
}
