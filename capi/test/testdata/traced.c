/* A program to be recorded: ten copies, a failing call, and then an end of the kind that its argument names. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "acl/acl.h"

static void must(aclError code, const char *what)
{
	if (code != ACL_SUCCESS) {
		fprintf(stderr, "%s: %d\n", what, code);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const char *end = argc > 1 ? argv[1] : "";
	void *host, *device;
	aclrtStream stream;
	aclrtEvent never;
	must(aclrtSetDevice(0), "device");
	must(aclrtCreateStream(&stream), "stream");
	must(aclrtMallocHost(&host, 4096), "pinned memory");
	must(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST), "device memory");
	for (int i = 0; i < 10; i++)
		must(aclrtMemcpyAsync(device, 4096, host, 100 + (size_t)i, ACL_MEMCPY_HOST_TO_DEVICE, stream), "copy");
	if (aclrtMemcpyAsync(device, 1, host, 2, ACL_MEMCPY_HOST_TO_DEVICE, stream) == ACL_SUCCESS)
		return 1;
	must(aclrtSynchronizeStream(stream), "synchronise");
	if (strcmp(end, "stuck") == 0) { /* in a call, until it is killed */
		must(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC), "event");
		must(aclrtStreamWaitEvent(stream, never), "wait");
		puts("ready");
		fflush(stdout);
		must(aclrtSynchronizeStream(stream), "synchronise");
	}
	if (strcmp(end, "busy") == 0) { /* copying, until it is killed */
		for (long i = 0;; i++) {
			must(aclrtMemcpyAsync(device, 4096, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), "copy");
			if (i == 100000) {
				puts("ready");
				fflush(stdout);
			}
		}
	}
	if (strcmp(end, "full") == 0) { /* files cannot grow any more, as on a disk without room */
		struct rlimit limit = {1 << 20, 1 << 20};
		must(setrlimit(RLIMIT_FSIZE, &limit), "limit");
		for (int i = 0; i < 200000; i++)
			must(aclrtMemcpyAsync(device, 4096, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), "copy");
		must(aclrtSynchronizeStream(stream), "synchronise");
	}
	if (strcmp(end, "crash") == 0)
		raise(SIGSEGV);
	if (strcmp(end, "leave") == 0)
		_exit(7);
	if (strcmp(end, "become") == 0) /* another program in the same process */
		execl(argv[0], argv[0], (char *)NULL);
	return strcmp(end, "fail") == 0 ? 3 : 0;
}
