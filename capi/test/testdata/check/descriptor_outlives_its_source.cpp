/*
 * A descriptor is set once and used in each step; the source it names is replaced in between, and the descriptor is not.
 *
 * finds: unset-descriptor (error)
 * offence: submitted aclrtMemcpyAsyncWithDesc in main at OFFENCE on stream 1, task 1
 */
#include "program.h"

constexpr size_t kSize = 512;
constexpr aclrtMemcpyKind kKind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;

int main()
{
    aclrtStream stream = start();
    void *source, *target, *ticket;
    size_t size;
    ACL(aclrtGetMemcpyDescSize(kKind, &size));
    ACL(aclrtMalloc(&ticket, size, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMalloc(&target, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtMalloc(&source, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    ACL(aclrtSetMemcpyDesc(ticket, kKind, source, target, kSize, nullptr));

    ACL(aclrtFree(source));
    ACL(aclrtMalloc(&source, 2 * kSize, ACL_MEM_MALLOC_HUGE_FIRST)); // the batch grew
    ACL(aclrtMemset(source, 2 * kSize, 1, 2 * kSize));
#ifdef FIXED
    ACL(aclrtSetMemcpyDesc(ticket, kKind, source, target, kSize, nullptr));
#endif
    ACL(aclrtMemcpyAsyncWithDesc(ticket, kKind, stream)); // OFFENCE
    aclrtSynchronizeStream(stream); // a copy with such a descriptor fails while it runs

    ACL(aclrtFree(source));
    ACL(aclrtFree(target));
    ACL(aclrtFree(ticket));
    finish(stream);
}
