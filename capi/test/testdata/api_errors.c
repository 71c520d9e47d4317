/*
 * Calls that fail, in all the ways a program can take that. The argument says which.
 */
#include "check/program.h"

enum { SIZE = 4096 };

static volatile aclError remembered; /* so that compilers keep what nobody looks at */

static void quietly(void *p)
{
	aclrtMemset(p, SIZE, 0, SIZE);
}

static aclError handed_on(void *p)
{
	return aclrtMemset(p, SIZE, 0, SIZE);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	aclrtStream stream = start();
	void *device, *host;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMallocHost(&host, SIZE));
	memset(host, 0, SIZE);

	if (strcmp(mode, "dropped") == 0) {
		aclrtMemset(NULL, SIZE, 0, SIZE);
	} else if (strcmp(mode, "cleanup") == 0) {
		aclrtFree(NULL);
	} else if (strcmp(mode, "dropped_at_the_end_of_a_function") == 0) {
		quietly(NULL);
	} else if (strcmp(mode, "dropped_by_the_caller") == 0) {
		handed_on(NULL);
	} else if (strcmp(mode, "dropped_in_a_loop") == 0) {
		for (int i = 0; i < 5; i++)
			aclrtMemset(NULL, SIZE, 0, SIZE);
	} else if (strcmp(mode, "ignored_on_purpose") == 0) {
		aclInit(NULL); /* libraries do so, and the code says that it was done before */
		aclrtSynchronizeStreamWithTimeout(stream, 1);
	} else if (strcmp(mode, "tested") == 0) {
		if (handed_on(NULL) == ACL_SUCCESS)
			return 1;
		REFUSED(aclrtMemset(NULL, SIZE, 0, SIZE));
	} else if (strcmp(mode, "stored") == 0) {
		remembered = aclrtMemset(NULL, SIZE, 0, SIZE);
	} else if (strcmp(mode, "as_much_as_there_is") == 0) {
		size_t size = (size_t)1 << 50;
		void *most = NULL;
		while (aclrtMalloc(&most, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
			size /= 2;
		ACL(aclrtFree(most));
	} else if (strcmp(mode, "probe") == 0) {
		int32_t can;
		if (aclrtDeviceCanAccessPeer(&can, 0, 0) == ACL_SUCCESS)
			return 1;
		size_t have, all;
		if (aclrtGetMemInfo((aclrtMemAttr)1000, &have, &all) == ACL_SUCCESS)
			return 1;
	} else if (strcmp(mode, "then_null") == 0) {
		void *much = NULL;
		aclrtMalloc(&much, (size_t)1 << 50, ACL_MEM_MALLOC_HUGE_FIRST);
		aclrtMemcpy(much, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
	} else if (strcmp(mode, "then_unwritten") == 0) {
		aclrtMemcpy(device, SIZE, NULL, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
		ACL(aclrtMemcpy(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	} else if (strcmp(mode, "then_crash") == 0) {
		char *volatile much = NULL;
		remembered = aclrtMallocHost((void **)&much, (size_t)1 << 50);
		much[0] = 1;
	} else if (strcmp(mode, "task") == 0) {
		ACL(aclrtMemcpyAsync(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		aclrtSynchronizeStream(stream);
	} else {
		fprintf(stderr, "%s?\n", mode);
		return 2;
	}
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
