/*
 * A notify is made for each step, and a device has a limited number of them.
 *
 * finds: leak (error)
 * offence: made aclrtCreateNotify in main at ALLOCATED
 * count: 4
 */
#include "program.h"

int main(void)
{
	aclrtStream stream = start();
	for (int i = 0; i < 4; i++) {
		aclrtNotify step;
		ACL(aclrtCreateNotify(&step, ACL_NOTIFY_DEFAULT)); // ALLOCATED
		ACL(aclrtRecordNotify(step, stream));
#ifdef FIXED
		ACL(aclrtDestroyNotify(step));
#endif
	}
	ACL(aclrtSynchronizeStream(stream));
	finish(stream);
	return 0;
}
