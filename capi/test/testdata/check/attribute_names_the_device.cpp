/*
 * A batch says that its sources are on the device, and they are pinned memory of the host. It is refused.
 *
 * finds: wrong-direction (error)
 * offence: called aclrtMemcpyBatchAsync in main at OFFENCE
 */
#include <utility>

#include "program.h"

constexpr size_t kSize = 512;

int main()
{
    aclrtStream stream = start();
    void *host, *device;
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));

    size_t size = kSize, first = 0, failed;
    aclrtMemcpyBatchAttr attribute = {};
    attribute.dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
    attribute.srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
#ifdef FIXED
    std::swap(attribute.dstLoc, attribute.srcLoc);
#endif
    aclrtMemcpyBatchAsync(&device, &size, &host, &size, 1, &attribute, &first, 1, &failed, stream); // OFFENCE
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(device));
    finish(stream);
}
