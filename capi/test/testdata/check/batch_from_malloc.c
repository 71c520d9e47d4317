/*
 * One page of a batch comes from malloc, and the whole stream has to stop for it. Registering it helps.
 *
 * finds: pageable-async (warning)
 * offence: called aclrtMemcpyBatchAsync in main at OFFENCE
 */
#include "program.h"

enum { PAGE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	char *pinned, *device, *own = aligned_alloc(PAGE, PAGE);
	memset(own, 1, PAGE);
	ACL(aclrtMallocHost((void **)&pinned, PAGE));
	ACL(aclrtMalloc((void **)&device, 2 * PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
	void *mapped;
	ACL(aclrtHostRegister(own, PAGE, ACL_HOST_REGISTER_MAPPED, &mapped));
#endif
	void *dsts[] = {device, device + PAGE}, *srcs[] = {pinned, own};
	size_t sizes[] = {PAGE, PAGE}, first = 0, failed;
	aclrtMemcpyBatchAttr up = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
	ACL(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &up, &first, 1, &failed, stream)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
#ifdef FIXED
	ACL(aclrtHostUnregister(own));
#endif
	free(own);
	ACL(aclrtFreeHost(pinned));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
