/*
 * Accesses to pinned memory of a program that is built with AddressSanitizer: poison MODE SIZE. The line that is wrong has the
 * mode at its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <acl/acl.h>

enum { N = 64 };

static void ok(aclError code, int line)
{
	if (code == ACL_SUCCESS)
		return;
	fprintf(stderr, "line %d: error %d\n", line, (int)code);
	exit(2);
}

#define ACL(call) ok((call), __LINE__)

/* Many blocks come and go, each is used to its last byte, and copied. */
static void use(size_t size)
{
	char *block[N];
	void *device;
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));
	ACL(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			ACL(aclrtMallocHost((void **)&block[i], size));
			memset(block[i], i, size);
			ACL(aclrtMemcpyAsync(device, size, block[i], size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
			ACL(aclrtMemcpyAsync(block[i], size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
		}
		ACL(aclrtSynchronizeStream(stream));
		for (int i = 0; i < N; i++) {
			if (block[i][0] != i || block[i][size - 1] != i)
				exit(3);
			ACL(aclrtFreeHost(block[i]));
		}
	}
	ACL(aclrtFree(device));
	ACL(aclrtDestroyStream(stream));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 4;
	const char *mode = argv[1];
	size_t size = strtoull(argv[2], NULL, 10);
	volatile char *p;
	char *q;
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	ACL(aclrtMallocHost((void **)&p, size));
	ACL(aclrtMallocHost((void **)&q, size));
	memset((char *)p, 1, size);
	if (!strcmp(mode, "right"))
		use(size);
	if (!strcmp(mode, "writes_behind"))
		p[size] = 1; // writes_behind
	if (!strcmp(mode, "reads_behind"))
		q[0] = p[size]; // reads_behind
	if (!strcmp(mode, "writes_far"))
		p[size + 65535] = 1; // writes_far
	if (!strcmp(mode, "reads_before"))
		q[0] = p[-1]; // reads_before
	if (!strcmp(mode, "writes_far_before"))
		p[-65536] = 1; // writes_far_before
	if (!strcmp(mode, "copies"))
		memcpy(q, (char *)p, size + 1); // copies
	ACL(aclrtFreeHost((void *)p));
	if (!strcmp(mode, "freed"))
		q[0] = p[size / 2]; // freed
	ACL(aclrtFreeHost(q));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
