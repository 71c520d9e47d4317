/*
 * The synchronous batch promises no order either: the whole image and a patch of it go up together.
 *
 * finds: batch-overlap (error)
 * offence: called aclrtMemcpyBatch in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 1024+256 of device 4096
 */
#include <vector>

#include "program.h"

constexpr size_t kImage = 4096, kPatch = 256, kAt = 1024;

int main()
{
    aclrtStream stream = start();
    std::vector<char> image(kImage, 'i'), patch(kPatch, 'p');
    void *device;
    ACL(aclrtMalloc(&device, kImage, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED

    void *dsts[] = {device, static_cast<char *>(device) + kAt}, *srcs[] = {image.data(), patch.data()};
    size_t sizes[] = {kImage, kPatch}, first = 0, failed;
    aclrtMemcpyBatchAttr up = {};
    up.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    up.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
#ifdef FIXED
    ACL(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 1, &up, &first, 1, &failed));
    ACL(aclrtMemcpyBatch(dsts + 1, sizes + 1, srcs + 1, sizes + 1, 1, &up, &first, 1, &failed));
#else
    ACL(aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 2, &up, &first, 1, &failed)); // OFFENCE
#endif
    ACL(aclrtFree(device));
    finish(stream);
}
