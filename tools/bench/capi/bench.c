/*
 * Measures libascendcl.so from C, in one process: small copies against an empty call into the core, bulk and batch
 * copies against glibc's memcpy. What is compared runs in turn, round by round; medians are set against each other.
 *
 *	bench [rounds]
 */
#define _GNU_SOURCE
#include <acl/acl.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* baseline.c */
int64_t copy_one(void *dst, const void *src, size_t n);
int64_t copy_two(void *dst, const void *src, size_t n);
int64_t copy_loop(void **dsts, void **srcs, size_t n, size_t count);

void ropeway_empty_call(void);

enum { MOST_ROUNDS = 1000, CALLS = 100000, SEGMENTS = 4096 };
#define MIB (1024.0 * 1024.0)

static int rounds = 15;
static aclrtStream stream;

static void need(aclError code, const char *what)
{
	if (code == ACL_SUCCESS)
		return;
	const char *text = aclGetRecentErrMsg();
	fprintf(stderr, "bench: %s: %d\n%s\n", what, code, text ? text : "");
	exit(1);
}
#define NEED(call) need(call, #call)

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, rounds, sizeof *v, compare);
	return v[rounds / 2];
}

static void row(const char *name, double ours, double base, const char *unit, double ratio, const char *asked)
{
	printf("%-44s %8.1f %s %8.1f %s %8.2f %8s\n", name, ours, unit, base, unit, ratio, asked);
	fflush(stdout);
}

/* Small copies: all three in each round, so that a slow moment hits all of them. */
static void small(void *dev, void *host)
{
	static double empty[MOST_ROUNDS], submit[MOST_ROUNDS], both[MOST_ROUNDS];
	for (int r = -1; r < rounds; r++) {
		int64_t t0 = now();
		for (int i = 0; i < CALLS; i++)
			ropeway_empty_call();
		int64_t t1 = now();
		for (int i = 0; i < CALLS; i++)
			NEED(aclrtMemcpyAsync(dev, 4096, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		int64_t t2 = now();
		for (int i = 0; i < CALLS; i++) {
			NEED(aclrtMemcpyAsync(dev, 4096, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
			NEED(aclrtSynchronizeStream(stream));
		}
		int64_t t3 = now();
		if (r < 0)
			continue; /* warms up */
		empty[r] = (double)(t1 - t0) / CALLS;
		submit[r] = (double)(t2 - t1) / CALLS;
		both[r] = (double)(t3 - t2) / CALLS;
	}
	double e = median(empty), s = median(submit), b = median(both);
	row("64 B submit / empty call", s, e, "ns  ", s / e, "<= 1.5");
	row("64 B submit + synchronise / empty call", b, e, "ns  ", b / e, "<= 3.0");
}

/* A call without a hook, against the original, which does not look for one. */
static void unhooked(void)
{
	static double exported[MOST_ROUNDS], original[MOST_ROUNDS];
	aclrtApiFunc found;
	NEED(aclrtApiInjectionGetFunc("aclrtGetDevice", &found, NULL));
	aclError (*direct)(int32_t *) = (aclError(*)(int32_t *))(void (*)(void))found;
	int32_t device;
	for (int r = -1; r < rounds; r++) {
		int64_t t0 = now();
		for (int i = 0; i < CALLS; i++)
			NEED(aclrtGetDevice(&device));
		int64_t t1 = now();
		for (int i = 0; i < CALLS; i++)
			NEED(direct(&device));
		int64_t t2 = now();
		if (r < 0)
			continue; /* warms up */
		exported[r] = (double)(t1 - t0) / CALLS;
		original[r] = (double)(t2 - t1) / CALLS;
	}
	double e = median(exported), o = median(original);
	row("aclrtGetDevice / without a look for a hook", e, o, "ns  ", e / o, "<= 1.02");
}

static void bulk(size_t n)
{
	static const struct {
		const char *name;
		aclrtMemcpyKind kind;
	} ways[] = {
		{"H2D", ACL_MEMCPY_HOST_TO_DEVICE}, {"D2H", ACL_MEMCPY_DEVICE_TO_HOST}, {"D2D", ACL_MEMCPY_DEVICE_TO_DEVICE},
	};
	void *host[2], *dev[2];
	for (int i = 0; i < 2; i++) {
		NEED(aclrtMallocHost(&host[i], n));
		NEED(aclrtMalloc(&dev[i], n, ACL_MEM_MALLOC_HUGE_FIRST));
		NEED(aclrtMemset(dev[i], n, 1, n)); /* through the engine, which takes huge pages where it can */
		NEED(aclrtMemcpy(host[i], n, dev[i], n, ACL_MEMCPY_DEVICE_TO_HOST));
	}
	for (int w = 0; w < 3; w++) {
		static double ours[MOST_ROUNDS], single[MOST_ROUNDS], pair[MOST_ROUNDS];
		void *src = ways[w].kind == ACL_MEMCPY_HOST_TO_DEVICE ? host[0] : dev[0];
		void *dst = ways[w].kind == ACL_MEMCPY_DEVICE_TO_HOST ? host[1] : dev[1];
		for (int r = -1; r < rounds; r++) {
			int64_t t = now();
			NEED(aclrtMemcpyAsync(dst, n, src, n, ways[w].kind, stream));
			NEED(aclrtSynchronizeStream(stream));
			t = now() - t;
			int64_t t1 = copy_one(host[1], host[0], n), t2 = copy_two(host[1], host[0], n);
			if (r < 0)
				continue;
			ours[r] = n / (double)t;
			single[r] = n / (double)t1;
			pair[r] = n / (double)t2;
		}
		char name[64];
		double o = median(ours), s = median(single), p = median(pair);
		snprintf(name, sizeof name, "%.0f MiB %s / memcpy, 1 thread", n / MIB, ways[w].name);
		row(name, o, s, "GB/s", o / s, ">= 1.9");
		snprintf(name, sizeof name, "%.0f MiB %s / memcpy, 2 threads", n / MIB, ways[w].name);
		row(name, o, p, "GB/s", o / p, ">= 1.0");
	}
	for (int i = 0; i < 2; i++) {
		NEED(aclrtFreeHost(host[i]));
		NEED(aclrtFree(dev[i]));
	}
}

/* Draws places for segments of n bytes, scattered over 16 times their size. */
static void scatter(void **dsts, char *to, void **srcs, char *from, size_t n)
{
	static uint64_t seed = 88172645463325252ULL;
	for (int i = 0; i < SEGMENTS; i++) {
		seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
		srcs[i] = from + (size_t)i * 16 * n + seed % 16 * n;
		dsts[i] = to + (size_t)(SEGMENTS - 1 - i) * 16 * n + seed / 16 % 16 * n;
	}
}

/* A batch against a loop of memcpy, each with places of its own, so that neither finds what the other has just read. */
static void batch(size_t n, const char *asked)
{
	size_t span = (size_t)SEGMENTS * 16 * n;
	char *host, *other, *dev;
	NEED(aclrtMallocHost((void **)&host, span));
	NEED(aclrtMallocHost((void **)&other, span));
	NEED(aclrtMalloc((void **)&dev, span, ACL_MEM_MALLOC_HUGE_FIRST));
	NEED(aclrtMemset(dev, span, 1, span));
	NEED(aclrtMemcpy(host, span, dev, span, ACL_MEMCPY_DEVICE_TO_HOST));
	NEED(aclrtMemcpy(other, span, dev, span, ACL_MEMCPY_DEVICE_TO_HOST));

	static void *dsts[SEGMENTS], *srcs[SEGMENTS];
	static size_t sizes[SEGMENTS];
	static double ours[MOST_ROUNDS], base[MOST_ROUNDS];
	aclrtMemcpyBatchAttr attr;
	memset(&attr, 0, sizeof attr);
	attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	attr.dstLoc.id = 0;
	attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
	size_t first = 0, failed;
	for (int i = 0; i < SEGMENTS; i++)
		sizes[i] = n;
	for (int r = -1; r < rounds; r++) {
		scatter(dsts, dev, srcs, host, n);
		int64_t t = now();
		NEED(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, SEGMENTS, &attr, &first, 1, &failed, stream));
		NEED(aclrtSynchronizeStream(stream));
		t = now() - t;
		scatter(dsts, other, srcs, host, n);
		int64_t tb = copy_loop(dsts, srcs, n, SEGMENTS);
		if (r < 0)
			continue;
		ours[r] = (double)SEGMENTS * n / t;
		base[r] = (double)SEGMENTS * n / tb;
	}
	char name[64];
	double o = median(ours), b = median(base);
	snprintf(name, sizeof name, "batch %d x %zu B H2D / memcpy loop", SEGMENTS, n);
	row(name, o, b, "GB/s", o / b, asked);
	NEED(aclrtFreeHost(host));
	NEED(aclrtFreeHost(other));
	NEED(aclrtFree(dev));
}

static void two_streams(size_t n)
{
	aclrtStream s[2];
	void *host[2], *dev[2];
	static double ours[MOST_ROUNDS], base[MOST_ROUNDS];
	for (int i = 0; i < 2; i++) {
		NEED(aclrtCreateStream(&s[i]));
		NEED(aclrtMallocHost(&host[i], n));
		NEED(aclrtMalloc(&dev[i], n, ACL_MEM_MALLOC_HUGE_FIRST));
		NEED(aclrtMemset(dev[i], n, 1, n));
		NEED(aclrtMemcpy(host[i], n, dev[i], n, ACL_MEMCPY_DEVICE_TO_HOST));
	}
	for (int r = -1; r < rounds; r++) {
		int64_t t = now();
		for (int i = 0; i < 2; i++)
			NEED(aclrtMemcpyAsync(dev[i], n, host[i], n, ACL_MEMCPY_HOST_TO_DEVICE, s[i]));
		for (int i = 0; i < 2; i++)
			NEED(aclrtSynchronizeStream(s[i]));
		t = now() - t;
		int64_t tb = copy_one(host[1], host[0], n);
		if (r < 0)
			continue;
		ours[r] = 2.0 * n / t;
		base[r] = (double)n / tb;
	}
	double o = median(ours), b = median(base);
	row("two streams x 64 MiB / memcpy, 1 thread", o, b, "GB/s", o / b, ">= 1.8");
	for (int i = 0; i < 2; i++) {
		NEED(aclrtDestroyStream(s[i]));
		NEED(aclrtFreeHost(host[i]));
		NEED(aclrtFree(dev[i]));
	}
}

static double resident(void)
{
	long pages = 0, total;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (double)sysconf(_SC_PAGESIZE) / MIB;
}

static double cpu_ms(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = atoi(argv[1]);
	if (rounds < 1 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "bench: rounds must be 1 to %d\n", MOST_ROUNDS);
		return 2;
	}
	double before = resident();
	NEED(aclInit(NULL));
	NEED(aclrtSetDevice(0));
	NEED(aclrtCreateStream(&stream));
	double after = resident(), cpu = cpu_ms();
	sleep(2);
	cpu = cpu_ms() - cpu;
	printf("libascendcl.so from C, %d rounds, medians\n", rounds);
	printf("resident after init %.1f MiB (%.1f before; asked < 24); CPU in 2 idle seconds %.1f ms\n\n", after, before, cpu);
	printf("%-44s %13s %13s %8s %8s\n", "row", "ropeway", "baseline", "ratio", "asked");

	void *dev, *host;
	NEED(aclrtMallocHost(&host, 4096));
	NEED(aclrtMalloc(&dev, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	small(dev, host);
	unhooked();
	bulk((size_t)256 << 20);
	bulk((size_t)1 << 30);
	batch(4096, ">= 2.0");
	batch(256, ">= 1.5");
	two_streams((size_t)64 << 20);
	NEED(aclrtFree(dev));
	NEED(aclrtFreeHost(host));
	NEED(aclrtDestroyStream(stream));
	NEED(aclrtResetDevice(0));
	NEED(aclFinalize());
	return 0;
}
