/*
 * The host uses the device address of registered memory, instead of its own.
 *
 * finds: device-memory-on-host (error)
 * offence: written in fill at OFFENCE
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 64+4 of registered 4096
 */
#include "program.h"

enum { SIZE = 4096 };

static void fill(volatile int *values)
{
	values[16] = 1; // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	void *pages = aligned_alloc(4096, SIZE), *mapped;
	ACL(aclrtHostRegister(pages, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
#ifdef FIXED
	fill(pages);
#else
	fill(mapped);
#endif
	ACL(aclrtHostUnregister(pages));
	free(pages);
	finish(stream);
	return 0;
}
