/* Names of an older layer, found with dlsym as programs do, with the types that they declare themselves. */
#define _GNU_SOURCE
#include <acl/acl.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "modes.h"

enum { BYTES = 1 << 20, NAME = 65 };

static const char *self;

static void *find(const char *name)
{
	void *f = dlsym(RTLD_DEFAULT, name);

	if (!f) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return f;
}

/* Every name, and its function as a caller declares it. */
#define FIND(type, name, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))(uintptr_t)find(#name)

static void ids(void)
{
	FIND(int32_t, rtDeviceGetBareTgid, uint32_t *);
	FIND(int32_t, rtGetLogicDevIdByUserDevId, int32_t, int32_t *);
	FIND(int32_t, rtGetDeviceInfo, uint32_t, int32_t, int32_t, int64_t *);
	static const struct { int info; aclrtDevAttr attr; } pairs[] = {
		{18, ACL_DEV_ATTR_PHY_CHIP_ID}, {26, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID},
		{27, ACL_DEV_ATTR_SUPER_POD_SERVER_ID}, {29, ACL_DEV_ATTR_SUPER_POD_ID},
	};
	static const int zeroes[] = {19, 30}; /* die of a chip, mode of addresses */
	uint32_t pid = 0;
	int32_t logic = -1;
	int64_t value, want;

	OK(rtDeviceGetBareTgid(&pid));
	CHECK(pid == (uint32_t)getpid());
	IS(ACL_ERROR_RT_PARAM_INVALID, rtDeviceGetBareTgid(NULL));
	OK(rtGetLogicDevIdByUserDevId(1, &logic)); /* the test sets ASCEND_RT_VISIBLE_DEVICES=2,3 */
	CHECK(logic == 3);
	IS(ACL_ERROR_RT_INVALID_DEVICEID, rtGetLogicDevIdByUserDevId(2, &logic));
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		for (uint32_t device = 0; device < 2; device++) {
			value = want = -1;
			OK(rtGetDeviceInfo(device, 0, pairs[i].info, &value));
			OK(aclrtGetDeviceInfo(device, pairs[i].attr, &want));
			CHECK(value == want);
		}
	for (size_t i = 0; i < sizeof zeroes / sizeof *zeroes; i++) {
		value = -1;
		OK(rtGetDeviceInfo(1, 0, zeroes[i], &value));
		CHECK(value == 0);
		IS(ACL_ERROR_RT_PARAM_INVALID, rtGetDeviceInfo(9, 0, zeroes[i], &value));
		IS(ACL_ERROR_RT_PARAM_INVALID, rtGetDeviceInfo(0, 0, zeroes[i], NULL));
	}
	value = -1;
	IS(ACL_ERROR_RT_PARAM_INVALID, rtGetDeviceInfo(0, 0, 1234, &value)); /* numbers that stand for nothing here */
	IS(ACL_ERROR_RT_PARAM_INVALID, rtGetDeviceInfo(0, 7, 26, &value));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtGetDeviceInfo(9, 0, 26, &value));
	CHECK(value == -1);
}

/* The device that is named gets the access, whichever is current; the peer is named by its physical number. */
static void peers(void)
{
	FIND(int32_t, rtEnableP2P, uint32_t, uint32_t, uint32_t);
	FIND(int32_t, rtDisableP2P, uint32_t, uint32_t);
	int32_t status = -1;

	OK(aclrtSetDevice(0)); /* user 0 is physical 2, user 1 is physical 3 */
	OK(aclrtDevicePeerAccessStatus(1, 2, &status));
	CHECK(status == 0);
	OK(rtEnableP2P(1, 2, 0));
	OK(aclrtDevicePeerAccessStatus(1, 2, &status));
	CHECK(status == 1);
	OK(aclrtDevicePeerAccessStatus(0, 3, &status));
	CHECK(status == 0);
	OK(rtDisableP2P(1, 2));
	OK(aclrtDevicePeerAccessStatus(1, 2, &status));
	CHECK(status == 0);
	IS(ACL_ERROR_RT_PARAM_INVALID, rtEnableP2P(1, 3, 0)); /* itself */
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, rtEnableP2P(1, 2, 1));
	IS(ACL_ERROR_RT_INVALID_DEVICEID, rtEnableP2P(2, 3, 0)); /* not visible, as device and as peer */
	IS(ACL_ERROR_RT_INVALID_DEVICEID, rtEnableP2P(1, 0, 0));
	IS(ACL_ERROR_RT_INVALID_DEVICEID, rtDisableP2P(1, 4000000000u));
	CHECK(strstr(aclGetRecentErrMsg(), "rtDisableP2P"));
}

/* A copy whose kind is wrong goes the way that the addresses say. */
static void copies(void)
{
	FIND(int32_t, rtMemcpyAsyncWithoutCheckKind, void *, uint64_t, const void *, uint64_t, int32_t, void *);
	aclrtStream stream;
	char *up, *down;
	void *device;
	static const int32_t kinds[] = {ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST,
					ACL_MEMCPY_DEVICE_TO_DEVICE, 99};

	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMallocHost((void **)&up, BYTES));
	OK(aclrtMallocHost((void **)&down, BYTES));
	OK(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		memset(up, (int)i + 1, BYTES);
		OK(rtMemcpyAsyncWithoutCheckKind(device, BYTES, up, BYTES, kinds[i], stream));
		OK(rtMemcpyAsyncWithoutCheckKind(down, BYTES, device, BYTES, kinds[i], stream));
		OK(aclrtSynchronizeStream(stream));
		CHECK(!memcmp(up, down, BYTES));
	}
	IS(ACL_ERROR_RT_PARAM_INVALID, rtMemcpyAsyncWithoutCheckKind(device, 1, up, BYTES, 1, stream));
	OK(aclrtResetDevice(0));
}

/* The other process of sharing: reads the name, then the bytes, and changes them. */
static void importer(void)
{
	FIND(int32_t, rtIpcOpenMemory, void **, const char *);
	FIND(int32_t, rtIpcCloseMemory, const void *);
	char name[NAME + 1], bytes[BYTES];
	void *first, *second;

	CHECK(fgets(name, sizeof name, stdin));
	name[strcspn(name, "\n")] = 0;
	OK(aclrtSetDevice(0));
	OK(rtIpcOpenMemory(&first, name));
	OK(rtIpcOpenMemory(&second, name));
	CHECK(first == second);
	OK(rtIpcCloseMemory(second)); /* it was opened twice, and is there until it was closed twice */
	OK(aclrtMemcpy(bytes, BYTES, first, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(bytes[0] == 7 && !memcmp(bytes, bytes + 1, BYTES - 1));
	OK(aclrtMemset(first, BYTES, 9, BYTES));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtIpcCloseMemory((char *)first + 64));
	OK(rtIpcCloseMemory(first));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtIpcCloseMemory(first));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtIpcCloseMemory(NULL));
	OK(aclrtResetDevice(0));
}

static void sharing(void)
{
	FIND(int32_t, rtIpcSetMemoryName, const void *, uint64_t, char *, uint32_t);
	FIND(int32_t, rtIpcDestroyMemoryName, const char *);
	FIND(int32_t, rtSetIpcMemorySuperPodPid, const char *, uint32_t, int32_t *, int32_t);
	FIND(int32_t, rtGetDeviceInfo, uint32_t, int32_t, int32_t, int64_t *);
	char name[NAME], bytes[BYTES];
	int down[2], status;
	int64_t sdid;
	void *device;

	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(device, BYTES, 7, BYTES));
	OK(rtGetDeviceInfo(0, 0, 26, &sdid));
	OK(rtIpcSetMemoryName(device, BYTES, name, NAME));
	CHECK(!pipe(down));
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		dup2(down[0], 0);
		close(down[0]), close(down[1]);
		alarm(120);
		execl(self, self, "importer", NULL);
		_exit(127);
	}
	int32_t pid = child;
	IS(ACL_ERROR_RT_PARAM_INVALID, rtSetIpcMemorySuperPodPid(name, (uint32_t)sdid, &pid, 0));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtSetIpcMemorySuperPodPid(name, (uint32_t)sdid, &pid, -1));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtSetIpcMemorySuperPodPid(name, (uint32_t)sdid, NULL, 1));
	OK(rtSetIpcMemorySuperPodPid(name, (uint32_t)sdid, &pid, 1));
	close(down[0]);
	CHECK(dprintf(down[1], "%s\n", name) > 0);
	close(down[1]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(aclrtMemcpy(bytes, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(bytes[0] == 9 && !memcmp(bytes, bytes + 1, BYTES - 1)); /* the importer wrote here */
	OK(rtIpcDestroyMemoryName(name));
	IS(ACL_ERROR_RT_PARAM_INVALID, rtIpcDestroyMemoryName(name));
	OK(aclrtFree(device));
	OK(aclrtResetDevice(0));
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{"ids", ids}, {"peers", peers}, {"copies", copies}, {"sharing", sharing}, {"importer", importer},
	};

	self = argv[0];
	RUN_MODE(modes, argc, argv);
}
