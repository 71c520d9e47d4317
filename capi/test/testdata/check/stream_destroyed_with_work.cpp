/*
 * A scope ends, and its stream is destroyed by force while a copy is queued on it: the copy may never run. aclrtDestroyStream waits
 * for it.
 *
 * finds: free-in-flight (warning)
 * offence: freed aclrtDestroyStreamForce in ~Scope at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 1
 */
#include "program.h"

constexpr size_t kSize = 2048;

struct Scope {
    aclrtStream stream;
    Scope() { ACL(aclrtCreateStream(&stream)); }
    ~Scope()
    {
#ifdef FIXED
        ACL(aclrtDestroyStream(stream));
#else
        ACL(aclrtDestroyStreamForce(stream)); // OFFENCE
#endif
    }
};

int main()
{
    aclrtStream stream = start();
    void *host, *device;
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    {
        Scope scope;
        ACL(aclrtMemcpyAsync(device, kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, scope.stream)); // SUBMIT
    }
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(device));
    finish(stream);
}
