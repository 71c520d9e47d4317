/*
 * Measures launches of kernels on the software device, from C and in one process: launches of an empty kernel against submits of a copy of
 * 64 bytes, and a kernel that copies against copies of the runtime. What is compared runs in turn, round by round; the fastest rounds are set
 * against each other.
 *
 *	launch KERNELS.so [rounds]
 */
#define _GNU_SOURCE
#include <acl/acl.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROW = 1000, ROWS = 20, WAITS = 200 };

static aclrtStream stream;
static aclrtFuncHandle empty, copy;
static struct { void *dst, *src; uint64_t n; } args;
static void *host, *dev, *device_args;

static void need(aclError code, const char *what)
{
	if (code == ACL_SUCCESS)
		return;
	const char *text = aclGetRecentErrMsg();
	fprintf(stderr, "launch: %s: %d\n%s\n", what, code, text ? text : "");
	exit(1);
}
#define NEED(call) need(call, #call)

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void finish(void) { NEED(aclrtSynchronizeStream(stream)); }
static void submit(void) { NEED(aclrtMemcpyAsync(dev, 4096, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream)); }
static void with_host_args(void) { NEED(aclrtLaunchKernelWithHostArgs(empty, 1, stream, NULL, &args, sizeof args, NULL, 0)); }
static void with_device_args(void) { NEED(aclrtLaunchKernel(empty, 1, device_args, sizeof args, stream)); }
static void all_blocks(void) { NEED(aclrtLaunchKernelWithHostArgs(empty, 64, stream, NULL, &args, sizeof args, NULL, 0)); }

/* One round of each kind: nanoseconds a call. */
static double calls(void (*call)(void))
{
	double took = 0;
	for (int row = 0; row < ROWS; row++) {
		double start = now();
		for (int i = 0; i < ROW; i++)
			call();
		took += now() - start;
		finish();
	}
	return took / ROW / ROWS;
}

static double rows(void (*call)(void))
{
	double start = now();
	for (int row = 0; row < ROWS; row++) {
		for (int i = 0; i < ROW; i++)
			call();
		finish();
	}
	return (now() - start) / ROW / ROWS;
}

static double waits(void (*call)(void))
{
	double start = now();
	for (int i = 0; i < WAITS; i++)
		call(), finish();
	return (now() - start) / WAITS;
}

static void copy_kernel(void) { NEED(aclrtLaunchKernelWithHostArgs(copy, 256, stream, NULL, &args, sizeof args, NULL, 0)); }
static void copy_engine(void) { NEED(aclrtMemcpyAsync(args.dst, args.n, args.src, args.n, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)); }

static double once(void (*call)(void))
{
	double start = now();
	call(), finish();
	return now() - start;
}

static const struct {
	const char *name;
	double (*round)(void (*)(void));
	void (*ours)(void), (*base)(void);
	const char *asked;
} table[] = {
	{"launch, arguments on the host / 64 B submit", calls, with_host_args, submit, "<= 2.0"},
	{"launch, arguments on the device / 64 B submit", calls, with_device_args, submit, "<= 2.0"},
	{"1,000 launches and a wait, each / 64 B submit", rows, with_host_args, submit, ""},
	{"1,000 of 64 blocks and a wait, each / the same", rows, all_blocks, submit, ""},
	{"a launch and a wait / 64 B copy and a wait", waits, with_host_args, submit, ""},
	{"256 MiB, kernel that copies / copy in the device", once, copy_kernel, copy_engine, "<= 1.11"},
};
enum { TABLE = sizeof table / sizeof *table };

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 15;
	if (argc < 2 || rounds < 1) {
		fprintf(stderr, "launch KERNELS.so [rounds]\n");
		return 2;
	}
	aclrtBinHandle binary;
	NEED(aclInit(NULL));
	NEED(aclrtSetDevice(0));
	NEED(aclrtCreateStream(&stream));
	NEED(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	NEED(aclrtBinaryGetFunction(binary, "empty", &empty));
	NEED(aclrtBinaryGetFunction(binary, "copy", &copy));
	args.n = (uint64_t)256 << 20;
	NEED(aclrtMalloc(&args.dst, args.n, ACL_MEM_MALLOC_HUGE_FIRST));
	NEED(aclrtMalloc(&args.src, args.n, ACL_MEM_MALLOC_HUGE_FIRST));
	NEED(aclrtMemset(args.dst, args.n, 1, args.n));
	NEED(aclrtMemset(args.src, args.n, 2, args.n));
	NEED(aclrtMallocHost(&host, 4096));
	NEED(aclrtMalloc(&dev, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	NEED(aclrtMalloc(&device_args, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	NEED(aclrtMemcpy(device_args, 4096, &args, sizeof args, ACL_MEMCPY_HOST_TO_DEVICE));

	static double ours[TABLE], base[TABLE];
	for (int r = -1; r < rounds; r++)
		for (int i = 0; i < TABLE; i++) {
			double a = table[i].round(table[i].ours), b = table[i].round(table[i].base);
			if (r <= 0 || a < ours[i])
				ours[i] = a;
			if (r <= 0 || b < base[i])
				base[i] = b;
		}
	unsigned char first, last;
	NEED(aclrtMemcpy(&first, 1, args.dst, 1, ACL_MEMCPY_DEVICE_TO_HOST));
	NEED(aclrtMemcpy(&last, 1, (char *)args.dst + args.n - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
	if (first != 2 || last != 2) {
		fprintf(stderr, "launch: the kernel did not copy\n");
		return 1;
	}
	printf("launches through libascendcl.so, from C, %d rounds, the fastest\n", rounds);
	printf("%-50s %13s %13s %8s %8s\n", "row", "ropeway", "baseline", "ratio", "asked");
	for (int i = 0; i < TABLE; i++)
		printf("%-50s %10.1f ns %10.1f ns %8.2f %8s\n", table[i].name, ours[i], base[i], ours[i] / base[i], table[i].asked);
	NEED(aclrtBinaryUnLoad(binary));
	NEED(aclrtDestroyStream(stream));
	NEED(aclrtResetDevice(0));
	NEED(aclFinalize());
	return 0;
}
