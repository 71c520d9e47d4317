/*
 * The synchronous batch has no mixed directions either.
 *
 * finds: mixed-directions (error)
 * offence: called aclrtMemcpyBatch in main at OFFENCE
 */
#include "program.h"

constexpr size_t kSize = 256;

int main()
{
    aclrtStream stream = start();
    static char in[kSize], out[kSize];
    void *first, *second;
    ACL(aclrtMalloc(&first, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMalloc(&second, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(second, kSize, 2, kSize));

    void *dsts[] = {first, out}, *srcs[] = {in, second};
    size_t sizes[] = {kSize, kSize}, indexes[] = {0, 1}, failed;
    aclrtMemcpyBatchAttr ways[2] = {};
    ways[0].dstLoc = ways[1].srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    ways[0].srcLoc = ways[1].dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
#ifdef FIXED
    for (int i = 0; i < 2; i++)
        ACL(aclrtMemcpyBatch(dsts + i, sizes, srcs + i, sizes, 1, ways + i, indexes, 1, &failed));
#else
    aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 2, ways, indexes, 2, &failed); // OFFENCE
#endif
    ACL(aclrtFree(first));
    ACL(aclrtFree(second));
    finish(stream);
}
