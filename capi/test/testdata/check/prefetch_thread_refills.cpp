/*
 * A loader thread, which knows nothing of ACL, fills the staging buffer anew while it is being copied.
 *
 * finds: host-write-in-flight (error)
 * offence: written in refill at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+8 of pinned 16384
 */
#include <thread>

#include "program.h"

constexpr size_t kSamples = 2048, kSize = kSamples * sizeof(double);

static void refill(double *staging, double value)
{
    for (size_t i = 0; i < kSamples; i++)
        static_cast<volatile double *>(staging)[i] = value; // OFFENCE
}

int main()
{
    aclrtStream stream = start();
    void *staging, *device;
    ACL(aclrtMallocHost(&staging, kSize)); // ALLOCATED
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    refill(static_cast<double *>(staging), 1);

    ACL(aclrtMemcpyAsync(device, kSize, staging, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
    ACL(aclrtSynchronizeStream(stream));
#endif
    std::thread loader(refill, static_cast<double *>(staging), 2);
    loader.join();

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(staging));
    ACL(aclrtFree(device));
    finish(stream);
}
