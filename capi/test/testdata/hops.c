// Copies like the one before, and synchronisations when everything has run, each between two signals to the tracer.
#include <acl/acl.h>
#include <signal.h>
#include "check.h"

int main(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	aclrtStream s;
	OK(aclrtCreateStream(&s));
	void *host, *dev;
	OK(aclrtMallocHost(&host, 256));
	OK(aclrtMalloc(&dev, 256, ACL_MEM_MALLOC_HUGE_FIRST));
	aclError copied = 0, over = 0;
	for (int i = 0; i < 8; i++) {
		OK(aclrtMemcpyAsync(dev, 256, host, 256, ACL_MEMCPY_HOST_TO_DEVICE, s));
		OK(aclrtSynchronizeStream(s));
	}
	raise(SIGUSR1);
	for (int i = 0; i < 3; i++) { // as often as the test looks
		copied = aclrtMemcpyAsync(dev, 256, host, 256, ACL_MEMCPY_HOST_TO_DEVICE, s);
		raise(SIGUSR1);
		over = aclrtSynchronizeStream(s);
		raise(SIGUSR1);
		OK(copied);
		OK(over);
	}
	return 0;
}
