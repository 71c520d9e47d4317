/*
 * The upload records a notify, and the stream that computes does not wait for it.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

enum { SIZE = 4096, FOR_EVER = 0 };

int main(void)
{
	aclrtStream upload = start(), compute;
	aclrtNotify arrived;
	void *host, *weights, *work;
	ACL(aclrtCreateStream(&compute));
	ACL(aclrtCreateNotify(&arrived, ACL_NOTIFY_DEFAULT));
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&weights, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(weights, SIZE, 0, SIZE));
	ACL(aclrtMalloc(&work, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtMemcpyAsync(weights, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
	ACL(aclrtRecordNotify(arrived, upload));
#ifdef FIXED
	ACL(aclrtWaitAndResetNotify(arrived, compute, FOR_EVER));
#endif
	ACL(aclrtMemcpyAsync(work, SIZE, weights, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, compute)); // OFFENCE

	ACL(aclrtSynchronizeStream(upload));
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtDestroyNotify(arrived));
	ACL(aclrtDestroyStream(compute));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(weights));
	ACL(aclrtFree(work));
	finish(upload);
	return 0;
}
