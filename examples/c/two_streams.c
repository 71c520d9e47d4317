/*
 * Two streams and events: twelve chunks of data go through two buffers of the device, one stream filling them while the
 * other empties them. Streams know nothing of each other; events put order between them without stopping the host.
 */
#include <string.h>

#include "check.h"

enum { CHUNKS = 12, CHUNK = 256 * 1024, BUFFERS = 2 };

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream up, down;
	ACL(aclrtCreateStream(&up));
	ACL(aclrtCreateStream(&down));

	unsigned char *source, *result;
	ACL(aclrtMallocHost((void **)&source, CHUNKS * CHUNK)); /* pinned: both streams run while the host goes on */
	ACL(aclrtMallocHost((void **)&result, CHUNKS * CHUNK));
	for (int i = 0; i < CHUNKS * CHUNK; i++)
		source[i] = (unsigned char)(i * 7 + i / CHUNK);
	memset(result, 0, CHUNKS * CHUNK);

	/*
	 * An event made this way needs no reset: a wait means the latest record made before it, and passes at once if there
	 * was none. That makes the loop below the same for the first round and for all others.
	 */
	void *buffer[BUFFERS];
	aclrtEvent filled[BUFFERS], emptied[BUFFERS];
	for (int b = 0; b < BUFFERS; b++) {
		ACL(aclrtMalloc(&buffer[b], CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
		ACL(aclrtCreateEventExWithFlag(&filled[b], ACL_EVENT_SYNC));
		ACL(aclrtCreateEventExWithFlag(&emptied[b], ACL_EVENT_SYNC));
	}

	/* Nothing in this loop waits on the host. All it does is queue: copies, marks, and waits for marks. */
	for (int i = 0; i < CHUNKS; i++) {
		int b = i % BUFFERS;

		ACL(aclrtStreamWaitEvent(up, emptied[b])); /* not over what the other stream still has to fetch */
		ACL(aclrtMemcpyAsync(buffer[b], CHUNK, source + i * CHUNK, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, up));
		ACL(aclrtRecordEvent(filled[b], up));

		ACL(aclrtStreamWaitEvent(down, filled[b])); /* not before it is there */
		ACL(aclrtMemcpyAsync(result + i * CHUNK, CHUNK, buffer[b], CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, down));
		ACL(aclrtRecordEvent(emptied[b], down));
	}
	printf("%d chunks are queued: one stream copies them to the device, the other back.\n", CHUNKS);

	/*
	 * The last thing on down waits for the last thing on up, so one would be enough for the bytes. Each stream keeps its
	 * own errors, though, and only its own synchronisation returns them.
	 */
	ACL(aclrtSynchronizeStream(up));
	ACL(aclrtSynchronizeStream(down));
	expect(memcmp(source, result, CHUNKS * CHUNK) == 0, "a chunk was overwritten or fetched too early");
	printf("All of them came back through %d buffers, and every byte is right.\n", BUFFERS);

	for (int b = 0; b < BUFFERS; b++) {
		ACL(aclrtDestroyEvent(emptied[b]));
		ACL(aclrtDestroyEvent(filled[b]));
		ACL(aclrtFree(buffer[b]));
	}
	ACL(aclrtFreeHost(result));
	ACL(aclrtFreeHost(source));
	ACL(aclrtDestroyStream(down));
	ACL(aclrtDestroyStream(up));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
