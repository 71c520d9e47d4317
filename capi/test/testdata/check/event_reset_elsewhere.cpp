/*
 * An event is reset on a stream that has nothing to do with the one that waits for it: the reset may come before the wait.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtResetEvent in main at OFFENCE on stream 3, task 1
 * other: submitted aclrtStreamWaitEvent in main at SUBMIT on stream 2, task 1
 */
#include "program.h"

int main()
{
	aclrtStream upload = start(), compute, other;
	aclrtEvent uploaded;
	ACL(aclrtCreateStream(&compute));
	ACL(aclrtCreateStream(&other));
	ACL(aclrtCreateEventWithFlag(&uploaded, ACL_EVENT_SYNC));

	ACL(aclrtRecordEvent(uploaded, upload));
	ACL(aclrtStreamWaitEvent(compute, uploaded)); // SUBMIT
#ifdef FIXED
	ACL(aclrtResetEvent(uploaded, compute));
#else
	ACL(aclrtResetEvent(uploaded, other)); // OFFENCE
#endif
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtSynchronizeStream(other));
	ACL(aclrtSynchronizeStream(upload));

	ACL(aclrtDestroyEvent(uploaded));
	ACL(aclrtDestroyStream(other));
	ACL(aclrtDestroyStream(compute));
	finish(upload);
	return 0;
}
