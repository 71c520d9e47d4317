/*
 * An arena hands out device memory without rounding up.
 *
 * finds: misaligned (warning)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * bytes: 100+128 of device 4096
 */
#include "program.h"

constexpr size_t kArena = 4096, kSize = 128;

static char *arena;
static size_t used;

static void *take(size_t bytes)
{
#ifdef FIXED
    bytes = (bytes + 63) / 64 * 64;
#endif
    used += bytes;
    return arena + used - bytes;
}

int main()
{
    aclrtStream stream = start();
    void *host, *memory;
    ACL(aclrtMallocHost(&host, kSize));
    ACL(aclrtMalloc(&memory, kArena, ACL_MEM_MALLOC_HUGE_FIRST));
    arena = static_cast<char *>(memory);
    take(100);
    ACL(aclrtMemcpyAsync(take(kSize), kSize, host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // OFFENCE
    ACL(aclrtSynchronizeStream(stream));
    ACL(aclrtFreeHost(host));
    ACL(aclrtFree(memory));
    finish(stream);
}
