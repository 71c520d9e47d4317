/*
 * Physical memory of a device is mapped for a cache that grows, and the host clears it.
 *
 * finds: device-memory-on-host (error)
 * offence: written in grow at OFFENCE
 * other: allocated aclrtMapMem in grow at ALLOCATED
 * bytes: 0+8 of mapped 2097152
 */
#include "program.h"

constexpr size_t kPiece = 2 << 20;

static aclrtDrvMemHandle grow(void *at)
{
    aclrtPhysicalMemProp prop = {};
    prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    aclrtDrvMemHandle memory;
    ACL(aclrtMallocPhysical(&memory, kPiece, &prop, 0));
    ACL(aclrtMapMem(at, kPiece, 0, memory, 0)); // ALLOCATED
#ifdef FIXED
    ACL(aclrtMemset(at, kPiece, 0, kPiece));
#else
    auto *words = static_cast<volatile uint64_t *>(at);
    for (size_t i = 0; i < kPiece / sizeof *words; i++)
        words[i] = 0; // OFFENCE
#endif
    return memory;
}

int main()
{
    aclrtStream stream = start();
    void *cache;
    ACL(aclrtReserveMemAddress(&cache, 4 * kPiece, 0, nullptr, 1));
    aclrtDrvMemHandle memory = grow(cache);

    ACL(aclrtUnmapMem(cache));
    ACL(aclrtFreePhysical(memory));
    ACL(aclrtReleaseMemAddress(cache));
    finish(stream);
}
