/*
 * A weight is not in the file, the copy of it is refused, and the code of that is dropped: the layer computes with zeros.
 *
 * finds: api-error (warning)
 * offence: called aclrtMemcpy in upload at OFFENCE
 */
#include "program.h"

enum { SIZE = 1024 };

static char weight[SIZE];

static void *find(const char *name)
{
	return strcmp(name, "weight") == 0 ? weight : NULL;
}

static void upload(void *device, const char *name)
{
	void *host = find(name);
#ifdef FIXED
	if (!host)
		return;
#endif
	aclrtMemcpy(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	void *device;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 0, SIZE));
	upload(device, "weight");
	upload(device, "bias");
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
