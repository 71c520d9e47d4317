/*
 * The stream is asked whether it is done; the result is not looked at. Asked until it says so, it is as good as waiting.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 9
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 4092+4 of pinned 4096
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	aclrtStreamStatus status;
	int *tokens;
	void *device;
	ACL(aclrtMallocHost((void **)&tokens, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	for (int i = 0; i < 8; i++)
		ACL(aclrtMemsetAsync(device, SIZE, i, SIZE, stream));
	ACL(aclrtMemcpyAsync(tokens, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
	do
#endif
		ACL(aclrtStreamQuery(stream, &status));
#ifdef FIXED
	while (status != ACL_STREAM_STATUS_COMPLETE);
#endif
	printf("token %d\n", tokens[SIZE / 4 - 1]); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(tokens));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
