/*
 * The device is reset while its default stream still has a host function to call.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtResetDevice in main at OFFENCE
 * other: submitted aclrtLaunchHostFunc in main at SUBMIT on stream 0, task 1
 */
#include "program.h"

static void report(void *done)
{
	*(volatile int *)done = 1;
}

int main(void)
{
	static int done;
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	ACL(aclrtLaunchHostFunc(NULL, report, &done)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(NULL));
#endif
	ACL(aclrtResetDevice(0)); // OFFENCE
	ACL(aclFinalize());
	return 0;
}
