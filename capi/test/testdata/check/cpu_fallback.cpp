/*
 * Where there is no device tensor, one path copies host to host with the default kind, and nobody looks at the code.
 *
 * finds: host-to-host-async (error)
 * offence: called aclrtMemcpyAsync in copy at OFFENCE
 */
#include "program.h"

constexpr size_t kSize = 1024;

static void copy(void *to, const void *from, aclrtStream stream)
{
    aclrtMemcpyAsync(to, kSize, from, kSize, ACL_MEMCPY_DEFAULT, stream); // OFFENCE
}

int main()
{
    aclrtStream stream = start();
    void *tensor, *device, *pinned;
    ACL(aclrtMallocHost(&pinned, kSize));
    ACL(aclrtMallocHost(&tensor, kSize));
    ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
    copy(device, pinned, stream);
#else
    copy(tensor, pinned, stream);
#endif
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(tensor));
    ACL(aclrtFreeHost(pinned));
    ACL(aclrtFree(device));
    finish(stream);
}
