/*
 * A result is copied into a std::vector before it is there. It is memcpy of the C library that reads it.
 *
 * finds: host-read-in-flight (error)
 * offence: read in take at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: ?+? of pinned 20000
 */
#include <vector>

#include "program.h"

constexpr size_t kSize = 20000;

static std::vector<char> take(const void *result)
{
    std::vector<char> own(kSize);
    memcpy(own.data(), result, own.size()); // OFFENCE
    return own;
}

int main()
{
    aclrtStream stream = start();
    void *result, *device;
    ACL(aclrtMallocHost(&result, kSize)); // ALLOCATED
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(device, kSize, 1, kSize));

    ACL(aclrtMemcpyAsync(result, kSize, device, kSize, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
    ACL(aclrtSynchronizeStream(stream));
#endif
    printf("%zu bytes\n", take(result).size());

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(result));
    ACL(aclrtFree(device));
    finish(stream);
}
