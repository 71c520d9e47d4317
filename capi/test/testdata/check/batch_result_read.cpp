/*
 * Four cache blocks come down with one batch, and the third is used at once. aclrtSynchronizeStreamWithTimeout was meant.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyBatchAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 8192+1 of pinned 16384
 */
#include "program.h"

constexpr size_t kBlock = 4096, kBlocks = 4;

int main()
{
    aclrtStream stream = start();
    void *host, *device;
    ACL(aclrtMallocHost(&host, kBlocks * kBlock)); // ALLOCATED
    ACL(aclrtMalloc(&device, kBlocks * kBlock, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(device, kBlocks * kBlock, 6, kBlocks * kBlock));

    void *dsts[kBlocks], *srcs[kBlocks];
    size_t sizes[kBlocks], first = 0, failed;
    for (size_t i = 0; i < kBlocks; i++) {
        dsts[i] = static_cast<char *>(host) + i * kBlock;
        srcs[i] = static_cast<char *>(device) + (kBlocks - 1 - i) * kBlock;
        sizes[i] = kBlock;
    }
    aclrtMemcpyBatchAttr down = {};
    down.dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
    down.srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    ACL(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, kBlocks, &down, &first, 1, &failed, stream)); // SUBMIT
#ifdef FIXED
    ACL(aclrtSynchronizeStreamWithTimeout(stream, 60000));
#endif
    printf("%d\n", static_cast<volatile char *>(host)[2 * kBlock]); // OFFENCE

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(device));
    finish(stream);
}
