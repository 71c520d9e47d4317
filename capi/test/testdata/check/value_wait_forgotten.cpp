/*
 * A word in device memory says which layer has arrived. The stream that computes goes on without looking.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+2048 of device 2048
 */
#include "program.h"

constexpr size_t kSize = 2048;
constexpr uint64_t kLayer = 1;

int main()
{
    aclrtStream upload = start(), compute;
    void *host, *weights, *work, *layer;
    ACL(aclrtCreateStream(&compute));
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&weights, kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
    ACL(aclrtMemset(weights, kSize, 0, kSize));
    ACL(aclrtMalloc(&work, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMalloc(&layer, sizeof kLayer, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(layer, sizeof kLayer, 0, sizeof kLayer));

    ACL(aclrtMemcpyAsync(weights, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
    ACL(aclrtValueWrite(layer, kLayer, 0, upload));
#ifdef FIXED
    ACL(aclrtValueWait(layer, kLayer, 0, compute));
#endif
    ACL(aclrtMemcpyAsync(work, kSize, weights, kSize, ACL_MEMCPY_DEVICE_TO_DEVICE, compute)); // OFFENCE

    ACL(aclrtSynchronizeStream(upload));
    ACL(aclrtSynchronizeStream(compute));
    ACL(aclrtDestroyStream(compute));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(weights));
    ACL(aclrtFree(work));
    ACL(aclrtFree(layer));
    finish(upload);
}
