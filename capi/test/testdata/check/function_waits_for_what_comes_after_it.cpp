/*
 * A function in the order of one stream waits for another stream, which waits for an event that comes after the function.
 *
 * finds: deadlock (error)
 * offence: called aclrtSynchronizeStreamWithTimeout in save at OFFENCE
 * other: submitted aclrtStreamWaitEvent in main at SUBMIT on stream 2, task 1
 * other: submitted aclrtLaunchHostFunc in main at FUNCTION on stream 1, task 1
 */
#include "program.h"

static void save(void *copies)
{
#ifndef FIXED
	REFUSED(aclrtSynchronizeStreamWithTimeout(copies, 10)); // OFFENCE
#endif
	printf("%s\n", copies ? "saved" : "nothing saved");
}

int main()
{
	aclrtStream compute = start(), copies;
	aclrtEvent computed;
	ACL(aclrtCreateStream(&copies));
	ACL(aclrtCreateEventExWithFlag(&computed, ACL_EVENT_SYNC));
	ACL(aclrtLaunchHostFunc(compute, save, copies)); // FUNCTION
	ACL(aclrtRecordEvent(computed, compute));
	ACL(aclrtStreamWaitEvent(copies, computed)); // SUBMIT
	ACL(aclrtSynchronizeStream(copies));
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtDestroyEvent(computed));
	ACL(aclrtDestroyStream(copies));
	finish(compute);
	return 0;
}
