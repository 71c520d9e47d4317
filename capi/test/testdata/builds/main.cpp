// A sample as programs for Ascend begin: a device, a copy there and back, and what the parts of the runtime say.
#include <acl/acl.h>
#include <acl/acl_prof.h>
#include <acl/acl_tdt.h>
#include <acl/acl_tdt_queue.h>
#include <cstdio>
#include <cstring>

#define CHECK(call) \
    if (aclError code = (call)) { \
        std::printf("%s: %d\n", #call, code); \
        return 1; \
    }

int main()
{
    char up[] = "up and down", down[sizeof up] = "";
    void* device = nullptr;
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMalloc(&device, sizeof up, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(device, sizeof up, up, sizeof up, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpy(down, sizeof down, device, sizeof down, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(aclrtFree(device));
#ifdef PARTS // functions of other libraries than the first: that they link is the point
    if (aclprofDestroyConfig(nullptr) == ACL_SUCCESS || acltdtDestroyQueueAttr(nullptr) == ACL_SUCCESS ||
        acltdtDestroyDataset(nullptr) == ACL_SUCCESS)
        return 2;
#endif
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    std::puts(std::strcmp(up, down) == 0 ? "[SUCCESS]" : "[FAILED]");
    return 0;
}
