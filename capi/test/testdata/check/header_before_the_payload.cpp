/*
 * A message has its header before its payload, but the buffer begins with the payload. The length that is written there is
 * found when the buffer is freed; it was not there yet when the payload was copied.
 *
 * finds: host-out-of-bounds (error)
 * offence: found aclrtFreeHost in main at OFFENCE
 * other: intact aclrtMemcpy in main at INTACT
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: -8+8 of pinned 1000
 */
#include "program.h"

constexpr size_t kPayload = 1000;

struct Header {
    uint64_t length;
};

int main()
{
    aclrtStream stream = start();
    void *device;
    char *buffer;
#ifdef FIXED
    const size_t header = sizeof(Header);
#else
    const size_t header = 0;
#endif
    ACL(aclrtMallocHost(reinterpret_cast<void **>(&buffer), header + kPayload)); // ALLOCATED
    ACL(aclrtMalloc(&device, kPayload, ACL_MEM_MALLOC_HUGE_FIRST));
    char *payload = buffer + header;
    memset(payload, 7, kPayload);
    ACL(aclrtMemcpy(device, kPayload, payload, kPayload, ACL_MEMCPY_HOST_TO_DEVICE)); // INTACT
    auto *message = reinterpret_cast<volatile Header *>(payload) - 1;
    message->length = kPayload;

    ACL(aclrtFree(device));
    ACL(aclrtFreeHost(buffer)); // OFFENCE
    finish(stream);
}
