/* Prints what the environment has made of the machine: codes, devices, memory, and what the log is given. */
#include <acl/acl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void note(void *args)
{
	*(int *)args = 1;
}

int main(void)
{
	uint32_t count = 99;
	size_t free_bytes = 0, total = 0;
	printf("init %d\n", aclInit(NULL));
	int code = aclrtGetDeviceCount(&count);
	printf("count %d %u\n", code, count);
	code = aclrtSetDevice(0);
	printf("set %d\n", code);
	if (code != ACL_SUCCESS) {
		const char *text = aclGetRecentErrMsg(), *soc = aclrtGetSocName();
		size_t index = 7;
		code = aclrtMemcpyBatch(NULL, NULL, NULL, NULL, 1, NULL, NULL, 1, &index);
		printf("batch %d %s\n", code, index == SIZE_MAX ? "SIZE_MAX" : "not written");
		printf("says %s\nsoc %s\nsize %zu\n", text ? text : "nothing", soc ? soc : "none", aclDataTypeSize(ACL_FLOAT));
		return 0;
	}
	printf("soc %s\n", aclrtGetSocName());
	aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total);
	printf("at most 1 GiB: %d\n", total > 0 && total <= (size_t)1 << 30);

	/* Under launch blocking the function has run when the call returns; otherwise it may have. */
	aclrtStream stream;
	int ran = 0;
	aclrtCreateStream(&stream);
	aclrtLaunchHostFunc(stream, note, &ran);
	printf("ran %d\n", __atomic_load_n(&ran, __ATOMIC_ACQUIRE));
	aclrtSynchronizeStream(stream);

	ACL_APP_LOG(ACL_DEBUG, "a %s line", "debug");
	ACL_APP_LOG(ACL_ERROR, "an %s line, %d", "error", 7);
	printf("refused %d\n", aclrtMemcpy(&ran, 1, &total, 2, ACL_MEMCPY_HOST_TO_HOST));
	aclrtDestroyStream(stream);
	aclrtResetDevice(0);
	return aclFinalize();
}
