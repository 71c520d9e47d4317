/*
 * A registered pool is there until the process ends, and so is its registration.
 *
 * finds: leak (error)
 * offence: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 0+8192 of registered 8192
 */
#include <sys/mman.h>

#include "program.h"

enum { SIZE = 8192 };

int main(void)
{
	aclrtStream stream = start();
	void *pool = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *mapped;
	ACL(aclrtHostRegister(pool, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtHostUnregister(pool));
	munmap(pool, SIZE);
#endif
	finish(stream);
	return 0;
}
