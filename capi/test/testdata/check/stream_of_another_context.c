/*
 * A library makes a context of its own, which stays current, and the caller's next copy is refused with 107003.
 *
 * finds: wrong-context (error)
 * offence: called aclrtMemsetAsync in main at OFFENCE
 */
#include "program.h"

enum { SIZE = 1024 };

static aclrtContext library_init(void)
{
	aclrtContext before, own;
	ACL(aclrtGetCurrentContext(&before));
	ACL(aclrtCreateContext(&own, 0));
#ifdef FIXED
	ACL(aclrtSetCurrentContext(before));
#endif
	return own;
}

int main(void)
{
	aclrtStream stream = start();
	aclrtContext home, library;
	void *device;
	ACL(aclrtGetCurrentContext(&home));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	library = library_init();
	aclrtMemsetAsync(device, SIZE, 0, SIZE, stream); // OFFENCE

	ACL(aclrtSetCurrentContext(home));
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtDestroyContext(library));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
