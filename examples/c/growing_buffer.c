/*
 * A buffer that grows and stays where it is. Addresses are reserved once, for as much as it may ever need: they cost nothing.
 * Memory is mapped there piece by piece, while the stream works on what is there already. No byte is ever moved.
 */
#include <string.h>

#include "check.h"

enum { PIECES = 4, ROOM = 64 };

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	/* Memory is had in multiples of the granularity: one page of the device. */
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE,
		.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
		.memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	size_t piece;
	ACL(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &piece));

	void *reserved;
	ACL(aclrtReserveMemAddress(&reserved, ROOM * piece, 0, NULL, 0));
	char *buffer = reserved;

	char *source, *result;
	ACL(aclrtMallocHost((void **)&source, PIECES * piece));
	ACL(aclrtMallocHost((void **)&result, PIECES * piece));
	for (size_t i = 0; i < PIECES * piece; i++)
		source[i] = (char)(i * 13 + i / piece);
	memset(result, 0, PIECES * piece);

	aclrtDrvMemHandle memory[PIECES];
	for (int i = 0; i < PIECES; i++) {
		ACL(aclrtMallocPhysical(&memory[i], piece, &prop, 0));
		ACL(aclrtMapMem(buffer + i * piece, piece, 0, memory[i], 0));
		/* Copies into the piece before may still be running: mapping disturbs nobody. */
		ACL(aclrtMemcpyAsync(buffer + i * piece, piece, source + i * piece, piece, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	}
	printf("The buffer grew %d times, by %zu bytes each, and its address never changed.\n", PIECES, piece);

	/* To a copy it is one buffer: this one goes across all borders between pieces. */
	ACL(aclrtMemcpyAsync(result, PIECES * piece, buffer, PIECES * piece, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	expect(memcmp(source, result, PIECES * piece) == 0, "what came back is not what went up");
	printf("One copy read all of it back, across the pieces.\n");

	/* Unmapping waits for nobody, so what used the memory has to be over. */
	for (int i = 0; i < PIECES; i++) {
		ACL(aclrtUnmapMem(buffer + i * piece));
		ACL(aclrtFreePhysical(memory[i]));
	}
	ACL(aclrtReleaseMemAddress(reserved));
	ACL(aclrtFreeHost(result));
	ACL(aclrtFreeHost(source));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
