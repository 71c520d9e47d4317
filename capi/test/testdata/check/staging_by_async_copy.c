/*
 * A pinned buffer is filled from another by an asynchronous copy, which is refused: memcpy was wanted.
 *
 * finds: host-to-host-async (error)
 * offence: called aclrtMemcpyAsync in main at OFFENCE
 */
#include "program.h"

enum { SIZE = 2048 };

int main(void)
{
	aclrtStream stream = start();
	void *from, *to;
	ACL(aclrtMallocHost(&from, SIZE));
	ACL(aclrtMallocHost(&to, SIZE));
#ifdef FIXED
	ACL(aclrtMemcpy(to, SIZE, from, SIZE, ACL_MEMCPY_HOST_TO_HOST));
#else
	aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_HOST_TO_HOST, stream); // OFFENCE
#endif
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(from));
	ACL(aclrtFreeHost(to));
	finish(stream);
	return 0;
}
