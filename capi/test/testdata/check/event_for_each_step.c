/*
 * An event is made in each step, and only the last one is destroyed.
 *
 * finds: leak (error)
 * offence: made aclrtCreateEventExWithFlag in main at ALLOCATED
 * count: 4
 */
#include "program.h"

int main(void)
{
	aclrtStream stream = start();
	aclrtEvent step = NULL;
	for (int i = 0; i < 5; i++) {
#ifdef FIXED
		if (step)
			ACL(aclrtDestroyEvent(step));
#endif
		ACL(aclrtCreateEventExWithFlag(&step, ACL_EVENT_SYNC)); // ALLOCATED
		ACL(aclrtRecordEvent(step, stream));
	}
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtDestroyEvent(step));
	finish(stream);
	return 0;
}
