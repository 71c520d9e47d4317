/*
 * An event of aclrtCreateEventWithFlag stays set until it is reset: in the second round the wait passes on the first
 * round's record.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemsetAsync in main at OFFENCE on stream 1, task 5
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 3
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+1024 of device 1024
 */
#include "program.h"

enum { SIZE = 1024, ROUNDS = 2 };

int main(void)
{
	aclrtStream producer = start(), consumer;
	aclrtEvent full, empty;
	void *device, *host;
	ACL(aclrtCreateStream(&consumer));
	ACL(aclrtCreateEventExWithFlag(&full, ACL_EVENT_SYNC)); // a wait means its latest record, and needs no reset
	ACL(aclrtCreateEventWithFlag(&empty, ACL_EVENT_SYNC));
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(device, SIZE, 0, SIZE));

	ACL(aclrtRecordEvent(empty, consumer));
	for (int round = 0; round < ROUNDS; round++) {
		ACL(aclrtStreamWaitEvent(producer, empty));
#ifdef FIXED
		ACL(aclrtResetEvent(empty, producer));
#endif
		ACL(aclrtMemsetAsync(device, SIZE, round, SIZE, producer)); // OFFENCE
		ACL(aclrtRecordEvent(full, producer));
		ACL(aclrtStreamWaitEvent(consumer, full));
		ACL(aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, consumer)); // SUBMIT
		ACL(aclrtRecordEvent(empty, consumer));
	}

	ACL(aclrtSynchronizeDevice());
	ACL(aclrtDestroyEvent(full));
	ACL(aclrtDestroyEvent(empty));
	ACL(aclrtDestroyStream(consumer));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(producer);
	return 0;
}
