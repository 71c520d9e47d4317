/*
 * Registered memory is freed by the pool and once more by its user.
 *
 * finds: double-free (error)
 * offence: called aclrtHostUnregister in main at OFFENCE
 * other: freed aclrtHostUnregister in main at FREED
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 0+4096 of registered 4096
 */
#include "program.h"

int main(void)
{
	aclrtStream stream = start();
	void *mapped, *pool = aligned_alloc(4096, 4096);
	memset(pool, 0, 4096);
	ACL(aclrtHostRegister(pool, 4096, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
	ACL(aclrtHostUnregister(pool)); // FREED
#ifndef FIXED
	aclrtHostUnregister(pool); // OFFENCE
#endif
	free(pool);
	finish(stream);
	return 0;
}
