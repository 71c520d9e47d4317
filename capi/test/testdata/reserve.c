/* Large reservations at fixed addresses, as transfer engines make them, and one that is made again in pieces. */
#include <acl/acl.h>
#include "check.h"

#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)

static void at(size_t address, size_t size, int far)
{
	void *p = NULL, *want = (void *)address;
	if (far)
		OK(aclrtReserveMemAddressNoUCMemory(&p, size, 0, want, 1));
	else
		OK(aclrtReserveMemAddress(&p, size, 0, want, 1));
	CHECK(p == want);
	OK(aclrtReleaseMemAddress(p));
}

int main(void)
{
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	at(16 * TIB, 8 * TIB, 0);
	at(40 * TIB, 32 * TIB, 1);
	void *any = NULL;
	OK(aclrtReserveMemAddress(&any, 4 * GIB, 0, NULL, 1));
	OK(aclrtReleaseMemAddress(any));
	for (int i = 0; i < 4; i++)
		at((size_t)any + i * GIB, GIB, 0);
	return 0;
}
