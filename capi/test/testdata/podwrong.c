/* Each of two servers copies one byte more than its memory has, in a function of its own, and reads what a copy is writing. */
#include "servers.h"

static void *memory;

__attribute__((noinline)) static aclError zero(void)
{
	return aclrtMemcpyAsync(memory, 4097, host, 4097, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

__attribute__((noinline)) static aclError one(void)
{
	aclError e = aclrtMemcpyAsync(memory, 4099, host, 4099, ACL_MEMCPY_HOST_TO_DEVICE, stream);
	return e;
}

__attribute__((noinline)) static int early(void)
{
	OK(aclrtMemcpyAsync(host, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	return *(volatile unsigned char *)&host[5];
}

int main(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMallocHost((void **)&host, 8192));
	OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(memory, 4096, 1, 4096));
	early();
	OK(aclrtSynchronizeStream(stream));
	WANT(strcmp(getenv("ROPEWAY_POD_SERVER"), "0") == 0 ? zero() : one(), ACL_ERROR_RT_PARAM_INVALID);
	OK(aclrtFree(memory));
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
