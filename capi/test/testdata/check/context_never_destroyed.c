/*
 * Each worker has a context of its own. aclrtResetDevice ends the primary context of a device, not those that a program made.
 *
 * finds: leak (error)
 * offence: made aclrtCreateContext in work at ALLOCATED
 */
#include "program.h"

static void work(void)
{
	aclrtContext context;
	ACL(aclrtCreateContext(&context, 0)); // ALLOCATED
	ACL(aclrtSynchronizeDevice());
#ifdef FIXED
	ACL(aclrtDestroyContext(context));
#endif
}

int main(void)
{
	ACL(aclInit(NULL));
	work();
	ACL(aclrtSetDevice(0));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
