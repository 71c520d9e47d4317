/*
 * A step was captured with a block of a pool. The block is freed, and the next request gets it: the step writes into the
 * memory of that. No call fails.
 *
 * finds: stale-model (error)
 * offence: called aclmdlRIExecuteAsync in main at OFFENCE
 * other: captured aclrtMemcpyAsync in main at CAPTURED
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * other: freed aclrtMemPoolFreeAsync in main at FREED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

constexpr size_t kSize = 4096, kBlock = 2 << 20;

int main()
{
    aclrtStream stream = start();
    aclmdlRI step;
    aclrtMemPool pool;
    aclrtMemPoolProps props = {};
    void *host, *block, *next = nullptr;
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 4 * kBlock;
    ACL(aclrtMemPoolCreate(&pool, &props));
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMemPoolMallocAsync(&block, kBlock, pool, stream)); // ALLOCATED

    ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    ACL(aclrtMemcpyAsync(block, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // CAPTURED
    ACL(aclmdlRICaptureEnd(stream, &step));

#ifndef FIXED
    ACL(aclrtMemPoolFreeAsync(block, stream)); // FREED
    ACL(aclrtMemPoolMallocAsync(&next, kBlock, pool, stream));
    block = next;
#endif
    ACL(aclmdlRIExecuteAsync(step, stream)); // OFFENCE
    ACL(aclrtMemPoolFreeAsync(block, stream));
    ACL(aclrtSynchronizeStream(stream));

    ACL(aclmdlRIDestroy(step));
    ACL(aclrtMemPoolDestroy(pool));
    ACL(aclrtFreeHost(host));
    (void)next;
    finish(stream);
}
