/*
 * Server 0 exports memory. Server 1 starts itself again without a pod (argv[1] is none), or as server 0, too (same), cannot import and prints
 * why. They meet by files in the directory argv[2].
 */
#include "servers.h"

int main(int argc, char **argv)
{
	const char *server = getenv("ROPEWAY_POD_SERVER");
	aclrtMemFabricHandle f;
	aclrtDrvMemHandle h;
	dir = argv[2];
	if (argc == 3 && strcmp(server, "1") == 0) {
		if (strcmp(argv[1], "none") == 0)
			unsetenv("ROPEWAY_POD");
		else
			setenv("ROPEWAY_POD_SERVER", "0", 1);
		execl("/proc/self/exe", argv[0], argv[1], argv[2], "again", NULL);
		FAIL("it cannot be started again");
	}
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	if (argc == 4) {
		get("handle", &f, sizeof(f));
		WANT(aclrtMemImportFromShareableHandleV2(&f, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &h), ACL_ERROR_RT_INVALID_HANDLE);
		printf("%s\n", aclGetRecentErrMsg());
		say("done");
	} else {
		aclrtPhysicalMemProp prop = {
			.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
			.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
		};
		OK(aclrtMallocPhysical(&h, SIZE, &prop, 0));
		OK(aclrtMemExportToShareableHandleV2(h, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &f));
		put("handle", &f, sizeof(f));
		hear("done");
		OK(aclrtFreePhysical(h));
	}
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
