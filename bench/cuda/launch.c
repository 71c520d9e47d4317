/*
 * Measures launches of a small kernel through libascendcl.so against those of CUDA itself, in one process and by turns, and
 * prints medians and their ratio: how long a launch and the wait for it take, how many launches in a row there are in a second, and
 * how long one call takes.
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
static CUfunction theirs;
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
		CU(cuLaunchKernel(theirs, BLOCKS, 1, 1, threads, 1, 1, 0, custream, params, NULL));
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

static int compare(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

static void measure(const char *what, double (*round)(int), int rounds)
{
	static double times[2][MOST];
	round(0), round(1);
	for (int r = 0; r < rounds; r++)
		for (int k = 0; k < 2; k++)
			times[(r + k) % 2][r] = round((r + k) % 2);
	for (int k = 0; k < 2; k++)
		qsort(times[k], rounds, sizeof(double), compare);
	printf("%-32s CUDA %7.3f us, ropeway %7.3f us, ratio %.3f (of the best rounds %.3f)\n", what, times[0][rounds / 2], times[1][rounds / 2],
		times[1][rounds / 2] / times[0][rounds / 2], times[1][0] / times[0][0]);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fprintf(stderr, "usage: launch BINARY [rounds]\n"), 2;
	int rounds = argc > 2 ? atoi(argv[2]) : 51;
	if (rounds > MOST)
		rounds = MOST;
	aclrtBinHandle binary;
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	ACL(aclrtCreateStream(&stream));
	ACL(aclrtMalloc((void **)&args.p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	ACL(aclrtBinaryGetFunction(binary, "times", &ours));

	CUcontext context;
	CUmodule module;
	CU(cuInit(0));
	CU(cuDevicePrimaryCtxRetain(&context, 0)); /* the same that the driver uses */
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoad(&module, argv[1]));
	CU(cuModuleGetFunction(&theirs, module, "times"));
	CU(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, theirs));
	CU(cuStreamCreate(&custream, CU_STREAM_NON_BLOCKING));

	measure("a launch and the wait for it", waits, rounds);
	measure("1000 launches in a row, each", row, rounds);
	measure("the call alone, of 100", calls, rounds);
	return 0;
}
