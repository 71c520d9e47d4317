/*
 * Batch copy: sixteen pages of a cache, side by side in host memory, go to sixteen places scattered over the device,
 * with one call instead of sixteen. Products A2, A3 and 950 have batch copies; the vendor marks them a trial feature.
 */
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { PAGES = 16, PAGE = 4096 }; /* a multiple of 64, so every page is aligned as the buffers are */

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	/* Pinned, so that the batch is asynchronous. A pageable page would make the call wait for the stream. */
	unsigned char *cache, *back, *device;
	ACL(aclrtMallocHost((void **)&cache, PAGES * PAGE));
	ACL(aclrtMallocHost((void **)&back, PAGES * PAGE));
	ACL(aclrtMalloc((void **)&device, PAGES * PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < PAGES; i++)
		memset(cache + i * PAGE, 'a' + i, PAGE);

	/*
	 * Segment i copies sizes[i] bytes from srcs[i] to dsts[i], where there is room for destMaxs[i]. Segments are
	 * independent and run in any order, so none may touch what another one writes. The stream keeps its order around
	 * the batch as a whole. The arrays belong to the caller again as soon as the call returns; the memory does not.
	 */
	void *dsts[PAGES], *srcs[PAGES];
	size_t destMaxs[PAGES], sizes[PAGES];
	for (int i = 0; i < PAGES; i++) {
		srcs[i] = cache + i * PAGE;
		dsts[i] = device + i * 7 % PAGES * PAGE; /* 7 and 16 have no common divisor: each place is taken once */
		destMaxs[i] = sizes[i] = PAGE;
	}

	/*
	 * Attributes say where memory is: attribute k holds for the segments from attrsIndexes[k] up to the next one's. Here
	 * one is enough. Host memory has id 0, device memory the number of its device. All segments of a batch go the same
	 * way, host to device or device to host. The reserved bytes have to be 0, which the initialiser sees to.
	 */
	aclrtMemcpyBatchAttr up = {
		.dstLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
		.srcLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_HOST},
	};
	size_t attrsIndexes[] = {0};
	size_t failIndex = 0;
	ACL(aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, PAGES, &up, attrsIndexes, 1, &failIndex, stream));
	printf("%d pages of %d bytes were copied with one call, each to its own place.\n", PAGES, PAGE);

	/* Down again in one piece, on the same stream and so after the batch: page i must be where it was sent. */
	ACL(aclrtMemcpyAsync(back, PAGES * PAGE, device, PAGES * PAGE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < PAGES; i++)
		expect(memcmp(back + i * 7 % PAGES * PAGE, cache + i * PAGE, PAGE) == 0, "a page is not where it was sent");
	printf("Their order on the device: ");
	for (int i = 0; i < PAGES; i++)
		putchar(back[i * PAGE]);
	putchar('\n');

	/*
	 * If a segment is refused, failIndex reports which; otherwise it is SIZE_MAX. Here segment 5 starts in device memory,
	 * but the attribute promises host memory. On A2 and A3 the segments before it are queued by then: synchronise
	 * before their memory is used again.
	 */
	srcs[5] = device;
	aclError refused = aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, PAGES, &up, attrsIndexes, 1, &failIndex, stream);
	expect(refused == ACL_ERROR_RT_PARAM_INVALID && failIndex == 5, "segment 5 should have been refused");
	printf("A page in the wrong kind of memory is refused, with its number: %zu.\n", failIndex);
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(back));
	ACL(aclrtFreeHost(cache));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
