#include <acl/acl.h>
#include "check.h"

int main(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	aclrtStream s;
	OK(aclrtCreateStream(&s));
	unsigned char *host, back[256];
	void *dev;
	OK(aclrtMallocHost((void **)&host, 256));
	OK(aclrtMalloc(&dev, 256, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < 256; i++)
		host[i] = (unsigned char)i;
	OK(aclrtMemcpyAsync(dev, 256, host, 256, ACL_MEMCPY_HOST_TO_DEVICE, s));
	OK(aclrtSynchronizeStream(s));
	OK(aclrtMemcpy(back, 256, dev, 256, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < 256; i++)
		CHECK(back[i] == i);
	OK(aclrtFree(dev));
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(s));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
