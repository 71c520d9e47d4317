/* A library that a recorded program opens when it runs. */
#include "acl/acl.h"

int plugged(void);
int plugged(void)
{
	uint32_t n;
	return aclrtGetDeviceCount(&n); /* at: plugged */
}
