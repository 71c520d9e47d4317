/*
 * The room that is declared is that of a header, and the copy brings header and body. It is refused.
 *
 * finds: out-of-bounds (error)
 * offence: called aclrtMemcpy in main at OFFENCE
 * bytes: 0+1024 of device 1024
 */
#include "program.h"

enum { HEADER = 64, MESSAGE = 1024 };

int main(void)
{
	aclrtStream stream = start();
	char message[MESSAGE] = "header and body";
	void *device;
	ACL(aclrtMalloc(&device, MESSAGE, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
	size_t room = MESSAGE;
#else
	size_t room = HEADER;
#endif
	aclrtMemcpy(device, room, message, MESSAGE, ACL_MEMCPY_HOST_TO_DEVICE); // OFFENCE
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
