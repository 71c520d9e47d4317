/*
 * A synchronous copy fills memory of a pool without waiting for the stream in whose order it was given out.
 *
 * finds: host-write-in-flight (error)
 * offence: written aclrtMemcpy in main at OFFENCE
 * other: submitted aclrtMemPoolMallocAsync in main at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

constexpr size_t kSize = 4096, kBlock = 2 << 20;

int main()
{
    aclrtStream stream = start();
    aclrtMemPoolProps props = {};
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    aclrtMemPool pool;
    void *block, *weights;
    ACL(aclrtMallocHost(&weights, kSize));
    ACL(aclrtMemPoolCreate(&pool, &props));

    ACL(aclrtMemPoolMallocAsync(&block, kBlock, pool, stream)); // ALLOCATED
#ifdef FIXED
    ACL(aclrtSynchronizeStream(stream));
#endif
    ACL(aclrtMemcpy(block, kSize, weights, kSize, ACL_MEMCPY_HOST_TO_DEVICE)); // OFFENCE

    ACL(aclrtMemPoolFreeAsync(block, stream));
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtMemPoolDestroy(pool));
    ACL(aclrtFreeHost(weights));
    finish(stream);
}
