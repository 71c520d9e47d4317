/*
 * An event is destroyed as soon as it is recorded, and a stream is to wait for it afterwards.
 *
 * finds: use-after-free (error)
 * offence: called aclrtStreamWaitEvent in main at OFFENCE
 * other: freed aclrtDestroyEvent in main at FREED
 * other: made aclrtCreateEvent in main at ALLOCATED
 */
#include "program.h"

int main(void)
{
	aclrtStream stream = start(), other;
	aclrtEvent event;
	ACL(aclrtCreateStream(&other));
	ACL(aclrtCreateEvent(&event)); // ALLOCATED
	ACL(aclrtRecordEvent(event, stream));
#ifndef FIXED
	ACL(aclrtDestroyEvent(event)); // FREED
#endif
	aclrtStreamWaitEvent(other, event); // OFFENCE
#ifdef FIXED
	ACL(aclrtDestroyEvent(event));
#endif
	ACL(aclrtSynchronizeDevice());
	ACL(aclrtDestroyStream(other));
	finish(stream);
	return 0;
}
