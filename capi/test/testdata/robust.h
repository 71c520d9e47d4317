/* What the test programs about threads, forks, signals and exits share. */
#ifndef ROBUST_H
#define ROBUST_H

#include <acl/acl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "modes.h"

/* Makes the device current, copies a pattern there and back on a stream of its own, compares, frees all it made. */
static inline void copy_both_ways(unsigned seed)
{
	enum { size = 4096 };
	unsigned char there[size], back[size];
	void *device;
	aclrtStream stream;

	for (int i = 0; i < size; i++)
		there[i] = (unsigned char)((unsigned)i * 7 + seed);
	memset(back, 0, size);
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemcpyAsync(device, size, there, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	OK(aclrtMemcpyAsync(back, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	OK(aclrtSynchronizeStream(stream));
	CHECK(!memcmp(there, back, size));
	OK(aclrtFree(device));
	OK(aclrtDestroyStream(stream));
}

/* The number after "name:" in a file of /proc, as in /proc/self/status. */
static inline long proc_number(const char *path, const char *name)
{
	char line[256];
	long n = -1;
	FILE *f = fopen(path, "r");

	CHECK(f);
	while (n < 0 && fgets(line, sizeof line, f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			n = atol(line + strlen(name) + 1);
	fclose(f);
	CHECK(n >= 0);
	return n;
}

#endif
