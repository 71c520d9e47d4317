/*
 * A worker thread has no device: threads inherit nothing, and its first call is refused with 107002.
 *
 * finds: wrong-context (error)
 * offence: called aclrtMemset in work at OFFENCE
 */
#include <thread>

#include "program.h"

constexpr size_t kSize = 512;

static void work(void *device, aclrtContext context)
{
#ifdef FIXED
    ACL(aclrtSetCurrentContext(context));
#else
    (void)context;
#endif
    aclrtMemset(device, kSize, 0, kSize); // OFFENCE
}

int main()
{
    aclrtStream stream = start();
    aclrtContext context;
    void *device;
    ACL(aclrtGetCurrentContext(&context));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
    std::thread(work, device, context).join();
    ACL(aclrtFree(device));
    finish(stream);
}
