/*
 * A std::vector is registered where it lies, which is not at the beginning of a page, and read too early.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 40000+4 of registered 1048576
 */
#include <vector>

#include "program.h"

constexpr size_t kSize = 1 << 20;

int main()
{
    aclrtStream stream = start();
    std::vector<char> memory(2 * kSize);
    char *pool = memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64; // on the 64-byte grid
    void *mapped, *device;
    ACL(aclrtHostRegister(pool, kSize, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMemset(device, kSize, 1, kSize));

    ACL(aclrtMemcpyAsync(pool, kSize, device, kSize, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
    ACL(aclrtSynchronizeStream(stream));
#endif
    printf("%d\n", reinterpret_cast<volatile int *>(pool)[10000]); // OFFENCE

    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtHostUnregister(pool));
    ACL(aclrtFree(device));
    finish(stream);
}
