/*
 * A message begins with a header. Its payload is handed out, and freed where the message should be.
 *
 * finds: invalid-free (error)
 * offence: called aclrtFreeHost in release at OFFENCE
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 64+4032 of pinned 4096
 */
#include "program.h"

enum { HEADER = 64, SIZE = 4096 };

static void release(char *payload)
{
#ifdef FIXED
	ACL(aclrtFreeHost(payload - HEADER));
#else
	aclrtFreeHost(payload); // OFFENCE
#endif
}

int main(void)
{
	aclrtStream stream = start();
	void *message;
	ACL(aclrtMallocHost(&message, SIZE)); // ALLOCATED
	release((char *)message + HEADER);
#ifndef FIXED
	ACL(aclrtFreeHost(message)); /* so that it is this mistake alone */
#endif
	finish(stream);
	return 0;
}
