/*
 * An image was allocated without the room between its rows, and is copied with it: the last rows are past its end.
 *
 * finds: out-of-bounds (error)
 * offence: called aclrtMemcpy2dAsync in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+8128 of device 6144
 */
#include "program.h"

constexpr size_t kWidth = 192, kPitch = 256, kRows = 32;

int main()
{
    aclrtStream stream = start();
    void *host, *image;
    ACL(aclrtMallocHost(&host, kRows * kWidth));
#ifdef FIXED
    ACL(aclrtMalloc(&image, kRows * kPitch, ACL_MEM_MALLOC_HUGE_FIRST));
#else
    ACL(aclrtMalloc(&image, kRows * kWidth, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#endif
    aclrtMemcpy2dAsync(image, kPitch, host, kWidth, kWidth, kRows, ACL_MEMCPY_HOST_TO_DEVICE, stream); // OFFENCE
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(image));
    finish(stream);
}
