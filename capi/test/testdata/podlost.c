/*
 * Server 1 imports memory of server 0, which it kills, and gives everything up: freeing the import returns 107017, and frees it. The servers
 * meet by files in the directory argv[1].
 */
#include "servers.h"

static void owner(void)
{
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle h;
	aclrtMemFabricHandle f;
	OK(aclrtMallocPhysical(&h, SIZE, &prop, 0));
	OK(aclrtMemExportToShareableHandleV2(h, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &f));
	int32_t pid = getpid();
	put("owner", &pid, sizeof(pid));
	put("handle", &f, sizeof(f));
	for (;;)
		pause();
}

static void user(void)
{
	aclrtMemFabricHandle f;
	aclrtDrvMemHandle h;
	void *far;
	int32_t pid;
	get("handle", &f, sizeof(f));
	get("owner", &pid, sizeof(pid));
	OK(aclrtMemImportFromShareableHandleV2(&f, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &h));
	OK(aclrtReserveMemAddress(&far, SIZE, 0, NULL, 0));
	OK(aclrtMapMem(far, SIZE, 0, h, 0));
	OK(aclrtMemcpyAsync(host, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	OK(aclrtSynchronizeStream(stream));
	kill(pid, SIGKILL);
	do
		OK(aclrtMemcpyAsync(host, SIZE, far, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	while (aclrtSynchronizeStream(stream) != ACL_ERROR_RT_LOST_HEARTBEAT);
	OK(aclrtUnmapMem(far));
	OK(aclrtReleaseMemAddress(far));
	WANT(aclrtFreePhysical(h), ACL_ERROR_RT_INVALID_HANDLE);
	printf("given up\n%s\n", aclGetRecentErrMsg());
}

int main(int argc, char **argv)
{
	dir = argc == 2 ? argv[1] : ".";
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMallocHost((void **)&host, SIZE));
	if (strcmp(getenv("ROPEWAY_POD_SERVER"), "0") == 0)
		owner();
	user();
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
