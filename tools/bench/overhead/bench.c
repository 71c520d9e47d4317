/* What the checker and the recorder cost: the same work, timed in a program that runs with one or without. ratio.py runs it both ways. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "acl/acl.h"

static unsigned char *host;
static void *device;
static aclrtStream stream;

static void must(aclError code, const char *what)
{
	if (code != ACL_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, code);
		exit(1);
	}
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void put(size_t offset, size_t size)
{
	must(aclrtMemcpyAsync((char *)device + offset, size, host + offset, size, ACL_MEMCPY_HOST_TO_DEVICE, stream), "copy");
}

static void synchronise(void)
{
	must(aclrtSynchronizeStream(stream), "synchronise");
}

/* Seconds for one round of each kind of work. */

static double bulk(size_t size)
{
	double start = now();
	put(0, size);
	synchronise();
	return now() - start;
}

static double untouched(int count)
{
	double start = now();
	for (int i = 0; i < count; i++) {
		put(0, 64);
		if (i % 64 == 63)
			synchronise();
	}
	synchronise();
	return (now() - start) / count;
}

static double touched(int count)
{
	double start = now();
	for (int i = 0; i < count; i++) {
		put(0, 64);
		synchronise();
		host[3] = (unsigned char)i;
	}
	return (now() - start) / count;
}

/* A captured model of copies to places of their own. */
static aclmdlRI captured(int copies)
{
	aclmdlRI model;
	must(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), "begin");
	for (int i = 0; i < copies; i++)
		put((size_t)i * 128, 64);
	must(aclmdlRICaptureEnd(stream, &model), "end");
	return model;
}

static double executed(aclmdlRI model, int count)
{
	double start = now();
	for (int i = 0; i < count; i++) {
		must(aclmdlRIExecuteAsync(model, stream), "execute");
		synchronise();
	}
	return (now() - start) / count;
}

static volatile long total;

static void count_one(void *unused)
{
	(void)unused;
	total++;
}

static void read_one(void *bytes)
{
	total += *(volatile unsigned char *)bytes;
}

/* 64 functions and a synchronisation, each function after a copy to the memory that it reads, or without one. */
static double called(aclrtHostFunc function, int copies, int count)
{
	double start = now();
	for (int i = 0; i < count; i++) {
		if (copies)
			must(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream), "copy");
		must(aclrtLaunchHostFunc(stream, function, host), "function");
		if (i % 64 == 63)
			synchronise();
	}
	synchronise();
	return (now() - start) / count;
}

/* A million tasks, none of which the host knows to be complete: the checker has to remember them. */
static double million(size_t step)
{
	double start = now();
	for (size_t i = 0; i < 1000000; i++)
		put(i * step % ((size_t)256 << 20), 64);
	synchronise();
	return now() - start;
}

int main(void)
{
	const size_t size = (size_t)256 << 20;
	must(aclrtSetDevice(0), "device");
	must(aclrtCreateStream(&stream), "stream");
	must(aclrtMallocHost((void **)&host, size), "pinned memory");
	must(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST), "device memory");
	memset(host, 1, size);
	aclmdlRI one = captured(1), some = captured(64), many = captured(1000);
	for (int round = -1; round < 7; round++) {
		double b = bulk(size), u = untouched(100000), t = touched(5000);
		if (round >= 0)
			printf("bulk %.9f\nuntouched %.9f\ntouched %.9f\n", b, u, t);
		double m1 = executed(one, 5000), m64 = executed(some, 2000), m1000 = executed(many, 200);
		double f = called(count_one, 0, 6400), r = called(read_one, 1, 6400);
		if (round >= 0)
			printf("one %.9f\nsome %.9f\nmany %.9f\nfunction %.9f\nreading %.9f\n", m1, m64, m1000, f, r);
	}
	struct rusage before, after;
	getrusage(RUSAGE_SELF, &before);
	printf("same %.9f\n", million(0));
	printf("spread %.9f\n", million(128));
	getrusage(RUSAGE_SELF, &after);
	printf("grown %ld\n", after.ru_maxrss - before.ru_maxrss);
	must(aclmdlRIDestroy(one), "destroy");
	must(aclmdlRIDestroy(some), "destroy");
	must(aclmdlRIDestroy(many), "destroy");
	must(aclrtFree(device), "free");
	must(aclrtFreeHost(host), "free");
	must(aclrtDestroyStream(stream), "stream");
	must(aclrtResetDevice(0), "reset");
	return 0;
}
