/*
 * kernel_process BINARY: kernels that end their process, with ROPEWAY_KERNEL_PROCESS=1. The task fails with the documented code, the
 * callbacks learn which kernel it was, the program goes on and is left without children.
 */
#include <acl/acl.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

static aclrtStream stream;
static aclrtBinHandle binary;
static volatile sig_atomic_t children;

static struct {
	int calls, code, device;
	uint32_t stream;
	aclrtFuncHandle function;
	uint32_t size;
} seen;

static void failed(aclrtExceptionInfo *info)
{
	void *args;
	seen.calls++;
	seen.code = (int)aclrtGetErrorCodeFromExceptionInfo(info);
	seen.device = (int)aclrtGetDeviceIdFromExceptionInfo(info);
	seen.stream = aclrtGetStreamIdFromExceptionInfo(info);
	OK(aclrtGetFuncHandleFromExceptionInfo(info, &seen.function));
	OK(aclrtGetArgsFromExceptionInfo(info, &args, &seen.size));
}

static void child(int signal)
{
	(void)signal;
	children++;
}

static aclrtFuncHandle kernel(const char *name)
{
	aclrtFuncHandle f;
	if (aclrtBinaryGetFunction(binary, name, &f)) {
		fprintf(stderr, "%s: %s\n", name, aclGetRecentErrMsg());
		exit(1);
	}
	return f;
}

static void fails(const char *name, uint64_t argument, int code)
{
	aclrtLaunchKernelAttr limit = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US, .value.timeoutUs = {.timeoutLow = 20000}};
	aclrtLaunchKernelCfg cfg = {&limit, 1};
	int32_t number;
	aclrtFuncHandle f = kernel(name);
	int before = seen.calls;
	OK(aclrtLaunchKernelWithHostArgs(f, 2, stream, strcmp(name, "endless") ? NULL : &cfg, &argument, sizeof argument, NULL, 0));
	int got = aclrtSynchronizeStream(stream);
	if (got != code) {
		fprintf(stderr, "%s: %d, want %d: %s\n", name, got, code, aclGetRecentErrMsg());
		exit(1);
	}
	OK(aclrtStreamGetId(stream, &number));
	CHECK(seen.calls == before + 1 && seen.code == code && seen.device == 0 && seen.function == f && seen.size == 8);
	CHECK(seen.stream == (uint32_t)number);
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	signal(SIGCHLD, child);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtSetExceptionInfoCallback(failed));
	OK(aclrtBinaryLoadFromFile(arguments[1], NULL, &binary));
	static volatile uint64_t mine = 7;
	struct {
		const char *name;
		uint64_t argument;
		int code;
	} all[] = {{"wild", 64, 507015}, {"wild", (uintptr_t)&mine, 507015}, {"divides", 0, 507015}, {"gives_up", 0, 507016},
		   {"ends", 0, 507016}, {"is_killed", 0, 507015}, {"endless", 0, 507014}};
	uint32_t *out, n;
	OK(aclrtMalloc((void **)&out, sizeof n, ACL_MEM_MALLOC_HUGE_FIRST));
	for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
		fails(all[i].name, all[i].argument, all[i].code);
		OK(aclrtLaunchKernelWithHostArgs(kernel("counts"), 1, stream, NULL, &out, sizeof out, NULL, 0));
		OK(aclrtSynchronizeStream(stream));
		OK(aclrtMemcpy(&n, sizeof n, out, sizeof n, ACL_MEMCPY_DEVICE_TO_HOST));
		CHECK(n == i + 1);
	}
	CHECK(mine == 7);
	CHECK(wait(NULL) == -1 && errno == ECHILD); /* none that the program would wait for */
	CHECK(children == 0);
	OK(aclrtFree(out));
	OK(aclrtBinaryUnLoad(binary));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
