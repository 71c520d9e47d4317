/* Kernels on the cuda driver:
 *	kernel_gpu all BINARY [compiled]   every form of a launch; compiled: it is kernels/gpu.cu, which has more of them
 *	kernel_gpu simt BINARY [compiled]  launches with threads, on a 950
 *	kernel_gpu model BINARY            kernels and copies that are captured, changed and executed again
 *	kernel_gpu fault BINARY KERNEL CODE  a kernel that breaks the GPU; with one more argument, in a model
 *	kernel_gpu refused FILE TEXT       a file that cannot be loaded, and what the message says */
#include <acl/acl.h>
#include <stdint.h>
#include <string.h>
#include "check.h"

enum { N = 1000 };
static aclrtStream stream;
static aclrtBinHandle binary;

static aclrtFuncHandle kernel(const char *name)
{
	aclrtFuncHandle f = NULL;
	OK(aclrtBinaryGetFunction(binary, name, &f));
	return f;
}

static uint32_t *words(uint32_t value)
{
	uint32_t host[N], *p;
	for (int i = 0; i < N; i++)
		host[i] = value;
	OK(aclrtMalloc((void **)&p, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemcpy(p, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE));
	return p;
}

/* All words of p are value, once the stream has come to rest. */
static void hold(const uint32_t *p, uint32_t value)
{
	uint32_t host[N];
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtMemcpy(host, sizeof host, p, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		if (host[i] != value) {
			fprintf(stderr, "word %d is %u, want %u\n", i, host[i], value);
			exit(1);
		}
}

struct sum_args { uint32_t *x, *y, *z; uint64_t n; };

static void forms(void)
{
	uint32_t *x = words(2), *y = words(5), *z = words(0);
	struct sum_args args = {x, y, z, N};
	aclrtFuncHandle sum = kernel("sum");
	OK(aclrtLaunchKernelWithHostArgs(sum, 8, stream, NULL, &args, sizeof args, NULL, 0));
	hold(z, 7);

	/* in device memory, as a copy before the launch in the stream leaves them */
	struct sum_args *there, *pinned;
	OK(aclrtMalloc((void **)&there, sizeof args, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost((void **)&pinned, sizeof args));
	*pinned = (struct sum_args){z, z, x, N};
	OK(aclrtMemcpyAsync(there, sizeof args, pinned, sizeof args, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	OK(aclrtLaunchKernel(sum, 3, there, sizeof args, stream));
	hold(x, 14);
	OK(aclrtLaunchKernelV2(sum, 3, there, sizeof args, NULL, stream));
	hold(x, 14);

	/* with the builder, which adds an address that the kernel does not have */
	aclrtArgsHandle built;
	aclrtParamHandle param;
	OK(aclrtKernelArgsInit(sum, &built));
	args = (struct sum_args){x, y, z, N};
	OK(aclrtKernelArgsAppend(built, &args.x, 8, &param));
	OK(aclrtKernelArgsAppend(built, &args.y, 8, &param));
	OK(aclrtKernelArgsAppend(built, &args.z, 8, &param));
	OK(aclrtKernelArgsAppend(built, &args.n, 8, &param));
	OK(aclrtKernelArgsFinalize(built));
	OK(aclrtLaunchKernelWithConfig(sum, 5, stream, NULL, built, NULL));
	hold(z, 19);

	/* with blocks that run at the same time, and with a limit that is not reached */
	aclrtLaunchKernelAttr attrs[2] = {{.id = ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, .value.schemMode = 1},
		{.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, .value.timeout = 100}};
	aclrtLaunchKernelCfg cfg = {attrs, 2};
	args.x = z;
	OK(aclrtLaunchKernelWithHostArgs(sum, 4, stream, &cfg, &args, sizeof args, NULL, 0));
	hold(z, 24);

	/* as an array: which parameters there are, the binary says, or the device */
	size_t count = 0, offset = 0, size = 0;
	OK(aclrtFunctionGetParamCount(sum, &count));
	CHECK(count == 4);
	OK(aclrtFunctionGetParamInfo(sum, 3, &offset, &size));
	CHECK(offset == 24 && size == 8);
	void *list[4] = {&args.x, &args.y, &args.z, &args.n};
	OK(aclrtLaunchKernelWithArgsArray(sum, 8, stream, NULL, list));
	hold(z, 29);

	/* with a placeholder: the first argument is the address of the second */
	struct { uint64_t at; uint32_t *word; } placed = {0, y};
	aclrtPlaceHolderInfo holder = {.addrOffset = 0, .dataOffset = 8};
	OK(aclrtLaunchKernelWithHostArgs(kernel("follow"), 2, stream, NULL, &placed, sizeof placed, &holder, 1));
	uint32_t first = 0;
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtMemcpy(&first, 4, y, 4, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(first == 6);

	/* memory of the host: pinned, and registered under its device address */
	uint32_t *mine = aligned_alloc(4096, 4096), *mapped;
	memset(mine, 0, 4096);
	OK(aclrtHostRegister(mine, 4096, ACL_HOST_REGISTER_MAPPED, (void **)&mapped));
	args = (struct sum_args){z, z, mapped, N};
	OK(aclrtLaunchKernelWithHostArgs(sum, 8, stream, NULL, &args, sizeof args, NULL, 0));
	OK(aclrtSynchronizeStream(stream));
	for (int i = 0; i < N; i++)
		CHECK(mine[i] == 58);
	OK(aclrtHostUnregister(mine));
}

static void variables(void)
{
	uint32_t *scale = NULL, value = 0, *x = words(2);
	size_t size = 0;
	OK(aclrtBinaryGetGlobal(binary, "scale", (void **)&scale, &size));
	CHECK(size == 4);
	OK(aclrtMemcpy(&value, 4, scale, 4, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(value == 3);
	value = 10;
	OK(aclrtMemcpy(scale, 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE));
	struct { uint32_t *p; uint64_t n; } args = {x, N};
	OK(aclrtLaunchKernelWithHostArgs(kernel("times"), 7, stream, NULL, &args, sizeof args, NULL, 0));
	hold(x, 20);
	IS(ACL_ERROR_RT_SYMBOL_NOT_FOUND, aclrtBinaryGetGlobal(binary, "no_such", (void **)&scale, &size));
	aclrtFuncHandle f;
	IS(ACL_ERROR_RT_PARAM_INVALID, aclrtBinaryGetFunction(binary, "no_such", &f));
	char name[16];
	OK(aclrtGetFunctionName(kernel("times"), sizeof name, name));
	CHECK(!strcmp(name, "times"));
}

/* A kernel without meta data says its number of threads itself. */
static void threads(void)
{
	uint32_t *p = words(0), got = 0;
	OK(aclrtLaunchKernelWithHostArgs(kernel("bounded"), 2, stream, NULL, &p, sizeof p, NULL, 0));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtMemcpy(&got, 4, p, 4, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(got == 128);
}

static void many(const char *path)
{
	uint32_t *x = words(1), *y = words(0);
	struct sum_args args = {x, y, y, N};
	aclrtFuncHandle sum = kernel("sum");
	for (int i = 0; i < 1000; i++)
		OK(aclrtLaunchKernelWithHostArgs(sum, 4, stream, NULL, &args, sizeof args, NULL, 0));
	hold(y, 1000);
	/* launches that are queued keep their code */
	aclrtBinHandle kept = binary;
	OK(aclrtBinaryLoadFromFile(path, NULL, &binary));
	sum = kernel("sum");
	for (int i = 0; i < 100; i++)
		OK(aclrtLaunchKernelWithHostArgs(sum, 4, stream, NULL, &args, sizeof args, NULL, 0));
	OK(aclrtBinaryUnLoad(binary));
	hold(y, 1100);
	IS(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchKernelWithHostArgs(sum, 4, stream, NULL, &args, sizeof args, NULL, 0));
	binary = kept;
}

static void simt(int compiled)
{
	uint32_t *p = words(0), host[N];
	void *args[1] = {&p};
	dim3 grid = {2, 3, 4}, block = {4, 2, 3};
	OK(aclrtLaunchSIMTKernelWithArgsArray(kernel("place"), grid, block, 0, stream, NULL, args));
	OK(aclrtSynchronizeStream(stream));
	OK(aclrtMemcpy(host, sizeof host, p, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
	for (uint32_t i = 0; i < N; i++)
		CHECK(host[i] == (i < 24 * 24 ? i : 0));
	if (!compiled)
		return;
	dim3 two = {2, 1, 1}, threads = {500, 1, 1};
	for (size_t bytes = 2000; bytes <= 100000; bytes += 98000) { /* the second needs more than every kernel may have */
		OK(aclrtLaunchSIMTKernelWithHostArgs(kernel("turned"), two, threads, bytes, stream, NULL, &p, sizeof p, NULL, 0));
		OK(aclrtSynchronizeStream(stream));
		OK(aclrtMemcpy(host, sizeof host, p, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
		for (uint32_t i = 0; i < N; i++)
			CHECK(host[i] == 499 - i % 500);
	}
}

static aclrtFuncHandle failed;
static uint32_t failure;

static void on_exception(aclrtExceptionInfo *info)
{
	if (failure)
		return; /* of a task that finds the GPU lost */
	failure = aclrtGetErrorCodeFromExceptionInfo(info);
	OK(aclrtGetFuncHandleFromExceptionInfo(info, &failed));
}

static void times(uint32_t *p, aclrtStream s)
{
	struct { uint32_t *p; uint64_t n; } args = {p, N};
	OK(aclrtLaunchKernelWithHostArgs(kernel("times"), 4, s, NULL, &args, sizeof args, NULL, 0));
}

/* Executes a model, and waits: every word of p is value then. */
static void execute(aclmdlRI model, const uint32_t *p, uint32_t value)
{
	OK(aclmdlRIExecuteAsync(model, stream));
	OK(aclrtSynchronizeStream(stream));
	for (int i = 0; i < N; i++)
		if (p[i] != value) {
			fprintf(stderr, "word %d is %u, want %u\n", i, p[i], value);
			exit(1);
		}
}

static void fill(uint32_t *p, uint32_t value)
{
	for (int i = 0; i < N; i++)
		p[i] = value;
}

/* Kernels of a model, with copies before and after them; then with another argument, and without one of them. */
static void models(void)
{
	uint32_t *x = words(0), *y = words(5), *other = words(100), *z = words(0), *up, *down;
	size_t size = N * sizeof *x;
	aclmdlRI model;
	OK(aclrtMallocHost((void **)&up, size));
	OK(aclrtMallocHost((void **)&down, size));
	struct sum_args args = {x, y, z, N};
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(x, size, up, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	times(x, stream);
	times(x, stream);
	OK(aclrtLaunchKernelWithHostArgs(kernel("sum"), 2, stream, NULL, &args, sizeof args, NULL, 0));
	OK(aclrtMemcpyAsync(down, size, z, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	OK(aclmdlRICaptureEnd(stream, &model));
	for (uint32_t i = 0; i < 5; i++) {
		fill(up, i);
		execute(model, down, 9 * i + 5);
	}

	aclmdlRITask tasks[8];
	aclrtStream streams[1];
	uint32_t count = 1;
	OK(aclmdlRIGetStreams(model, streams, &count));
	count = 8;
	OK(aclmdlRIGetTasksByStream(streams[0], tasks, &count));
	aclmdlRITask sum = tasks[count - 2], first = tasks[1];
	aclmdlRITaskParams params;
	OK(aclmdlRITaskGetParams(sum, &params));
	CHECK(params.type == ACL_MODEL_RI_TASK_KERNEL);
	args.y = other;
	params.kernelTaskParams.args = &args;
	params.kernelTaskParams.argsSize = sizeof args;
	params.kernelTaskParams.isHostArgs = 1;
	OK(aclmdlRITaskSetParams(sum, &params));
	OK(aclmdlRIUpdate(model));
	fill(up, 2);
	for (int i = 0; i < 3; i++)
		execute(model, down, 9 * 2 + 100);
	OK(aclmdlRITaskDisable(first));
	OK(aclmdlRIUpdate(model));
	for (int i = 0; i < 3; i++)
		execute(model, down, 3 * 2 + 100);
	OK(aclmdlRIDestroy(model));
}

/* Kernels on two streams, which meet. */
static void forks(void)
{
	uint32_t *x = words(1), *y = words(1), *z = words(0);
	struct sum_args args = {x, y, z, N};
	aclrtStream side;
	aclrtEvent fork, join;
	aclmdlRI model;
	OK(aclrtCreateStream(&side));
	OK(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
	OK(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));
	OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtRecordEvent(fork, stream));
	OK(aclrtStreamWaitEvent(side, fork));
	times(x, stream);
	times(y, side);
	times(y, side);
	OK(aclrtRecordEvent(join, side));
	OK(aclrtStreamWaitEvent(stream, join));
	OK(aclrtLaunchKernelWithHostArgs(kernel("sum"), 2, stream, NULL, &args, sizeof args, NULL, 0));
	OK(aclmdlRICaptureEnd(stream, &model));
	uint32_t a = 1, b = 1;
	for (int i = 0; i < 4; i++) {
		OK(aclmdlRIExecuteAsync(model, stream));
		a *= 3, b *= 9;
		hold(z, a + b);
	}
	OK(aclmdlRIDestroy(model));
	OK(aclrtDestroyEvent(fork));
	OK(aclrtDestroyEvent(join));
	OK(aclrtDestroyStream(side));
}

static void fault(const char *name, int code, int captured)
{
	aclmdlRI model;
	void *nowhere = NULL;
	uint32_t *x = words(1);
	aclrtFuncHandle f = kernel(name);
	OK(aclrtSetExceptionInfoCallback(on_exception));
	if (captured)
		OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtLaunchKernelWithHostArgs(f, 1, stream, NULL, &nowhere, sizeof nowhere, NULL, 0));
	if (captured) {
		OK(aclmdlRICaptureEnd(stream, &model));
		OK(aclmdlRIExecuteAsync(model, stream));
	}
	IS(code, aclrtSynchronizeStream(stream));
	CHECK(failed == f && (int)failure == code);
	/* the GPU is lost to this process, which goes on */
	CHECK(aclrtMemcpyAsync(x + 1, 4, x, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) || aclrtSynchronizeStream(stream));
	aclrtDestroyStream(stream);
	aclrtResetDevice(0);
	aclFinalize();
}

static int refused(const char *path, const char *text)
{
	aclrtFuncHandle f;
	int code = aclrtBinaryLoadFromFile(path, NULL, &binary);
	if (code == ACL_SUCCESS)
		code = aclrtBinaryGetFunction(binary, "sum", &f);
	const char *said = aclGetRecentErrMsg();
	printf("%d: %s\n", code, said ? said : "");
	return code != ACL_ERROR_RT_PARAM_INVALID || !said || !strstr(said, text);
}

int main(int argc, char **argv)
{
	CHECK(argc > 2);
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	if (!strcmp(argv[1], "refused"))
		return refused(argv[2], argv[3]);
	OK(aclrtBinaryLoadFromFile(argv[2], NULL, &binary));
	if (!strcmp(argv[1], "fault"))
		return fault(argv[3], atoi(argv[4]), argc > 5), 0;
	if (!strcmp(argv[1], "simt")) {
		simt(argc > 3);
	} else if (!strcmp(argv[1], "model")) {
		models();
		forks();
	} else {
		forms();
		variables();
		many(argv[2]);
		if (argc > 3)
			threads();
	}
	OK(aclrtBinaryUnLoad(binary));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
