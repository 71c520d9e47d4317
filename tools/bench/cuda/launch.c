/*
 * Measures launches of a small kernel through libascendcl.so against those of CUDA itself, in one process and by turns, and
 * prints medians and their ratio: how long a launch and the wait for it take, how many launches in a row there are in a second, and
 * how long one call takes; then captured models of such kernels against CUDA's graphs, captured in the same way, from the launch to
 * the end, and a copy of 64 bytes against a model of that copy.
 *
 *	launch BINARY [rounds]     BINARY has the kernel times(uint32_t *p, uint64_t n), as capi/test/testdata/kernels/gpu.cu
 */
#include <acl/acl.h>
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROW = 1000, WAITS = 200, MOST = 1000, BLOCKS = 4 };

#define ACL(call) do { int code = (call); if (code) { fprintf(stderr, "%s: %d %s\n", #call, code, aclGetRecentErrMsg()); exit(1); } } while (0)
#define CU(call) do { int code = (call); if (code) { fprintf(stderr, "%s: %d\n", #call, code); exit(1); } } while (0)

static struct { uint32_t *p; uint64_t n; } args = {NULL, 256};
static aclrtStream stream;
static aclrtFuncHandle ours;
static CUstream custream;
static CUfunction theirs[2]; /* of a module that was loaded before ours and of one after: where code lies makes 1 to 2 in a hundred */
static int turn;             /* which of them is used */
static int threads; /* of a block: as many as the kernel can have, which is what a plain launch has */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void launch(int acl)
{
	if (acl) {
		ACL(aclrtLaunchKernelWithHostArgs(ours, BLOCKS, stream, NULL, &args, sizeof args, NULL, 0));
	} else {
		void *params[] = {&args.p, &args.n};
		CU(cuLaunchKernel(theirs[turn], BLOCKS, 1, 1, threads, 1, 1, 0, custream, params, NULL));
	}
}

static void finish(int acl)
{
	if (acl)
		ACL(aclrtSynchronizeStream(stream));
	else
		CU(cuStreamSynchronize(custream));
}

/* One round of each kind: microseconds. */
static double waits(int acl)
{
	double start = now();
	for (int i = 0; i < WAITS; i++)
		launch(acl), finish(acl);
	return (now() - start) / WAITS;
}

static double row(int acl)
{
	double start = now();
	for (int i = 0; i < ROW; i++)
		launch(acl);
	finish(acl);
	return (now() - start) / ROW;
}

static double calls(int acl)
{
	finish(acl);
	double start = now();
	for (int i = 0; i < 100; i++)
		launch(acl);
	double took = (now() - start) / 100;
	finish(acl);
	return took;
}

/* A model, and CUDA's graph: so many kernels in a row, with a copy of 4 KiB before and one after them if mixed. */
static aclmdlRI model;
static CUgraphExec graphs[2];
static void *host;
static aclrtMemcpyKind way; /* of the copy of 64 bytes */

static void submit(int acl, int kernels, int mixed)
{
	size_t size = 4096;
	if (mixed && acl)
		ACL(aclrtMemcpyAsync(args.p, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	else if (mixed)
		CU(cuMemcpyAsync((CUdeviceptr)args.p, (CUdeviceptr)host, size, custream));
	for (int i = 0; i < kernels; i++)
		launch(acl);
	if (mixed && acl)
		ACL(aclrtMemcpyAsync((char *)host + size, size, args.p, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	else if (mixed)
		CU(cuMemcpyAsync((CUdeviceptr)host + size, (CUdeviceptr)args.p, size, custream));
}

static void capture(int kernels, int mixed)
{
	CUgraph made;
	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	submit(1, kernels, mixed);
	ACL(aclmdlRICaptureEnd(stream, &model));
	for (turn = 0; turn < 2; turn++) {
		CU(cuStreamBeginCapture(custream, CU_STREAM_CAPTURE_MODE_RELAXED));
		submit(0, kernels, mixed);
		CU(cuStreamEndCapture(custream, &made));
		CU(cuGraphInstantiate(&graphs[turn], made, 0));
		CU(cuGraphDestroy(made));
	}
	turn = 0;
}

static double execute(int acl)
{
	enum { TIMES = 20 };
	double start = now();
	for (int i = 0; i < TIMES; i++) {
		if (acl)
			ACL(aclmdlRIExecuteAsync(model, stream));
		else
			CU(cuGraphLaunch(graphs[turn], custream));
		finish(acl);
	}
	return (now() - start) / TIMES;
}

/* The copy itself, and the model of it. */
static double copy(int in_model)
{
	char *device = (char *)args.p;
	double start = now();
	for (int i = 0; i < WAITS; i++) {
		if (in_model)
			ACL(aclmdlRIExecuteAsync(model, stream));
		else
			ACL(aclrtMemcpyAsync(way == ACL_MEMCPY_DEVICE_TO_HOST ? host : device, 64,
				way == ACL_MEMCPY_HOST_TO_DEVICE ? host : device + 1024, 64, way, stream));
		finish(1);
	}
	return (now() - start) / WAITS;
}

static int compare(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

static void measure(const char *what, const char *than, double (*round)(int), int rounds)
{
	static double times[2][MOST];
	round(0), round(1);
	for (int r = 0; r < rounds; r++, turn = r / 2 % 2)
		for (int k = 0; k < 2; k++)
			times[(r + k) % 2][r] = round((r + k) % 2);
	turn = 0;
	for (int k = 0; k < 2; k++)
		qsort(times[k], rounds, sizeof(double), compare);
	printf("%-36s %s %8.3f us, ropeway %8.3f us, ratio %.3f (of the best rounds %.3f)\n", what, than, times[0][rounds / 2], times[1][rounds / 2],
		times[1][rounds / 2] / times[0][rounds / 2], times[1][0] / times[0][0]);
}

/* The kernel, of a module of its own. */
static CUfunction load(const char *binary)
{
	CUmodule module;
	CUfunction f;
	CU(cuModuleLoad(&module, binary));
	CU(cuModuleGetFunction(&f, module, "times"));
	return f;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fprintf(stderr, "usage: launch BINARY [rounds]\n"), 2;
	int rounds = argc > 2 ? atoi(argv[2]) : 51;
	if (rounds > MOST)
		rounds = MOST;
	CUcontext context;
	CU(cuInit(0));
	CU(cuDevicePrimaryCtxRetain(&context, 0)); /* the same that the driver uses */
	CU(cuCtxSetCurrent(context));
	CU(cuStreamCreate(&custream, CU_STREAM_NON_BLOCKING));
	theirs[0] = load(argv[1]);
	CU(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, theirs[0]));

	aclrtBinHandle binary;
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	ACL(aclrtCreateStream(&stream));
	ACL(aclrtMalloc((void **)&args.p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	ACL(aclrtBinaryGetFunction(binary, "times", &ours));
	launch(1), finish(1); /* the binary is on the GPU */
	theirs[1] = load(argv[1]);

	measure("a launch and the wait for it", "CUDA", waits, rounds);
	measure("1000 launches in a row, each", "CUDA", row, rounds);
	measure("the call alone, of 100", "CUDA", calls, rounds);
	ACL(aclrtMallocHost(&host, 1 << 16));
	for (int mixed = 0; mixed < 2; mixed++)
		for (int kernels = 1; kernels <= 1000; kernels *= 10) {
			char what[64];
			snprintf(what, sizeof what, "a model of %d kernels%s", kernels, mixed ? " and two copies" : "");
			capture(kernels, mixed);
			measure(what, "CUDA", execute, rounds);
			ACL(aclmdlRIDestroy(model));
			for (int i = 0; i < 2; i++)
				CU(cuGraphExecDestroy(graphs[i]));
		}
	const char *names[] = {"a copy up in a model", "a copy down in a model", "a copy inside in a model"};
	const aclrtMemcpyKind ways[] = {ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE};
	for (int i = 0; i < 3; i++) {
		way = ways[i];
		ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
		char *device = (char *)args.p;
		ACL(aclrtMemcpyAsync(way == ACL_MEMCPY_DEVICE_TO_HOST ? host : device, 64,
			way == ACL_MEMCPY_HOST_TO_DEVICE ? host : device + 1024, 64, way, stream));
		ACL(aclmdlRICaptureEnd(stream, &model));
		measure(names[i], "the copy", copy, rounds);
		ACL(aclmdlRIDestroy(model));
	}
	return 0;
}
