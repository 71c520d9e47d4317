/*
 * Static memory is pageable: the "asynchronous" copy waits for the stream and copies before it returns.
 *
 * finds: pageable-async (warning)
 * offence: called aclrtMemcpyAsync in main at OFFENCE
 */
#include "program.h"

constexpr size_t kNumbers = 1024, kSize = kNumbers * sizeof(float);

int main()
{
    aclrtStream stream = start();
    alignas(64) static float numbers[kNumbers];
    void *pinned, *device, *source = numbers;
    ACL(aclrtMallocHost(&pinned, kSize));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
    source = pinned;
#endif
    ACL(aclrtMemcpyAsync(device, kSize, source, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // OFFENCE
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(pinned));
    ACL(aclrtFree(device));
    finish(stream);
}
