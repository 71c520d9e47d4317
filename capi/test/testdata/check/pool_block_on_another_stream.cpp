/*
 * A pool gives memory out again as soon as its stream gets there. Another stream uses it without waiting for that.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemPoolFreeAsync in main at SUBMIT on stream 1, task 2
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

constexpr size_t kSize = 4096, kBlock = 2 << 20;

int main()
{
    aclrtStream compute = start(), upload;
    aclrtEvent free;
    aclrtMemPoolProps props = {};
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    aclrtMemPool pool;
    void *host, *first, *second;
    ACL(aclrtCreateStream(&upload));
    ACL(aclrtCreateEvent(&free));
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMemPoolCreate(&pool, &props));

    ACL(aclrtMemPoolMallocAsync(&first, kBlock, pool, compute));
    ACL(aclrtMemsetAsync(first, kSize, 1, kSize, compute));
    ACL(aclrtMemPoolFreeAsync(first, compute)); // SUBMIT
    ACL(aclrtMemPoolMallocAsync(&second, kBlock, pool, compute)); // ALLOCATED
#ifdef FIXED
    ACL(aclrtRecordEvent(free, compute));
    ACL(aclrtStreamWaitEvent(upload, free));
#endif
    ACL(aclrtMemcpyAsync(second, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // OFFENCE

    ACL(aclrtSynchronizeStream(compute));
    ACL(aclrtSynchronizeStream(upload));
    ACL(aclrtMemPoolFreeAsync(second, upload));
    ACL(aclrtSynchronizeStream(upload));
    ACL(aclrtMemPoolDestroy(pool));
    ACL(aclrtDestroyEvent(free));
    ACL(aclrtDestroyStream(upload));
    ACL(aclrtFreeHost(host));
    finish(compute);
}
