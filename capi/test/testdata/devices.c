/* A program for two devices: memory of each by itself, copies between them with and without leave, events across them,
 * memory that is mapped, and a reset of one that the other does not notice. */
#include <acl/acl.h>
#include <string.h>
#include "check.h"

enum { N = 1 << 20 };

static void *memory(int device)
{
	void *p;
	OK(aclrtSetDevice(device));
	OK(aclrtMalloc(&p, N, ACL_MEM_MALLOC_HUGE_FIRST));
	return p;
}

static size_t left(int device, size_t *total)
{
	size_t free;
	OK(aclrtSetDevice(device));
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, total));
	CHECK(free <= *total);
	return free;
}

/* What is allocated on one device is missing there, and not on the other. */
static void accounts(void)
{
	size_t total[2], before[2] = {left(0, &total[0]), left(1, &total[1])};
	void *p = memory(1);
	size_t taken = before[1] - left(1, &total[1]);
	CHECK(taken >= N && taken <= N + (4 << 20)); /* by whole pages */
	CHECK(left(0, &total[0]) == before[0]);
	OK(aclrtFree(p));
	CHECK(left(1, &total[1]) == before[1]);
	void *all = NULL;
	OK(aclrtSetDevice(0));
	CHECK(aclrtMalloc(&all, total[0] + N, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS);
	CHECK(left(0, &total[0]) == before[0] && left(1, &total[1]) == before[1]);
	printf("%zu %zu\n", total[0], total[1]);
}

static void fill(void *p, int value, unsigned char *host)
{
	memset(host, value, N);
	OK(aclrtMemcpy(p, N, host, N, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void holds(void *p, int value, unsigned char *host)
{
	memset(host, 0, N);
	OK(aclrtMemcpy(host, N, p, N, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		CHECK(host[i] == value);
}

/* Copies from device 0 to device 1, and after an event of device 0 back again; a device needs leave to reach the other. */
static void copies(unsigned char *host)
{
	int32_t can = 0;
	OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
	CHECK(can == 1);
	void *a = memory(0), *b = memory(1);
	aclrtStream s, t;
	aclrtEvent copied;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateEvent(&copied));
	CHECK(aclrtMemcpyAsync(b, N, a, N, ACL_MEMCPY_DEVICE_TO_DEVICE, s) != ACL_SUCCESS);
	OK(aclrtDeviceEnablePeerAccess(1, 0));
	for (int round = 1; round <= 3; round++) {
		OK(aclrtSetDevice(0));
		fill(a, round, host);
		OK(aclrtMemcpyAsync(b, N, a, N, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
		OK(aclrtRecordEvent(copied, s));
		OK(aclrtSetDevice(1));
		OK(aclrtDeviceEnablePeerAccess(0, 0));
		OK(aclrtCreateStream(&t));
		OK(aclrtStreamWaitEvent(t, copied));
		OK(aclrtMemsetAsync(b, N, 100 + round, N / 2, t));
		OK(aclrtMemcpyAsync(a, N, b, N, ACL_MEMCPY_DEVICE_TO_DEVICE, t));
		OK(aclrtSynchronizeStream(t));
		OK(aclrtMemcpy(host, N, a, N, ACL_MEMCPY_DEVICE_TO_HOST));
		for (int i = 0; i < N; i++)
			CHECK(host[i] == (i < N / 2 ? 100 + round : round));
		OK(aclrtDestroyStream(t));
		OK(aclrtDeviceDisablePeerAccess(0));
	}
	OK(aclrtSetDevice(0));
	OK(aclrtDeviceDisablePeerAccess(1));
	CHECK(aclrtMemcpyAsync(b, N, a, N, ACL_MEMCPY_DEVICE_TO_DEVICE, s) != ACL_SUCCESS);
	OK(aclrtDestroyEvent(copied));
	OK(aclrtDestroyStream(s));
	OK(aclrtFree(a));
	OK(aclrtFree(b));
}

/* Memory of device 0 that is created and mapped, and reached from a stream of device 1. */
static void mapped(unsigned char *host)
{
	const size_t n = 2 << 20;
	aclrtPhysicalMemProp prop;
	memset(&prop, 0, sizeof prop);
	prop.handleType = ACL_MEM_HANDLE_TYPE_NONE, prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
	prop.memAttr = ACL_HBM_MEM_HUGE;
	prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE, prop.location.id = 0;
	aclrtDrvMemHandle handle;
	void *at;
	size_t total, other, before = left(0, &total), untouched = left(1, &other);
	OK(aclrtSetDevice(0));
	OK(aclrtMallocPhysical(&handle, n, &prop, 0));
	CHECK(left(0, &total) == before - n && left(1, &other) == untouched);
	OK(aclrtReserveMemAddress(&at, n, 0, NULL, 0));
	OK(aclrtMapMem(at, n, 0, handle, 0));
	fill(at, 77, host);
	void *b = memory(1);
	aclrtStream t;
	OK(aclrtDeviceEnablePeerAccess(0, 0));
	OK(aclrtCreateStream(&t));
	OK(aclrtMemcpyAsync(b, N, at, N, ACL_MEMCPY_DEVICE_TO_DEVICE, t));
	OK(aclrtSynchronizeStream(t));
	holds(b, 77, host);
	OK(aclrtDestroyStream(t));
	OK(aclrtFree(b));
	OK(aclrtDeviceDisablePeerAccess(0));
	OK(aclrtUnmapMem(at));
	OK(aclrtReleaseMemAddress(at));
	OK(aclrtFreePhysical(handle));
	CHECK(left(0, &total) == before);
}

/* Device 0 is reset while device 1 has work; that goes on, and device 0 can be had again. */
static void reset(unsigned char *host)
{
	memory(0);
	void *from = memory(1), *to = memory(1);
	fill(from, 42, host);
	size_t total, before = left(1, &total);
	aclrtStream t;
	OK(aclrtCreateStream(&t));
	for (int i = 0; i < 500; i++)
		OK(aclrtMemcpyAsync(to, N, from, N, ACL_MEMCPY_DEVICE_TO_DEVICE, t));
	OK(aclrtResetDeviceForce(0));
	OK(aclrtMemcpyAsync(to, N, from, N, ACL_MEMCPY_DEVICE_TO_DEVICE, t));
	OK(aclrtSynchronizeStream(t));
	holds(to, 42, host);
	CHECK(left(1, &total) == before);
	void *again = memory(0);
	fill(again, 43, host);
	holds(again, 43, host);
	OK(aclrtSetDevice(1));
	OK(aclrtDestroyStream(t));
	OK(aclrtFree(from));
	OK(aclrtFree(to));
}

int main(void)
{
	unsigned char *host;
	uint32_t count;
	OK(aclInit(NULL));
	OK(aclrtGetDeviceCount(&count));
	CHECK(count == 2);
	OK(aclrtSetDevice(0));
	OK(aclrtMallocHost((void **)&host, N));
	accounts();
	copies(host);
	mapped(host);
	reset(host);
	OK(aclrtFreeHost(host));
	OK(aclFinalize());
	return 0;
}
