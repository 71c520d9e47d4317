/*
 * A function that a stream calls waits for all work of that stream: for its own end, too. With aclrtSynchronizeStream it would wait for ever.
 *
 * finds: deadlock (error)
 * offence: called aclrtSynchronizeStreamWithTimeout in done at OFFENCE
 * other: submitted aclrtLaunchHostFunc in main at SUBMIT on stream 1, task 1
 */
#include "program.h"

static void done(void *stream)
{
#ifndef FIXED
	REFUSED(aclrtSynchronizeStreamWithTimeout(stream, 10)); // OFFENCE
#endif
	printf("%s\n", stream ? "done" : "nothing done");
}

int main(void)
{
	aclrtStream stream = start();
	ACL(aclrtLaunchHostFunc(stream, done, stream)); // SUBMIT
	ACL(aclrtSynchronizeStream(stream));
	finish(stream);
	return 0;
}
