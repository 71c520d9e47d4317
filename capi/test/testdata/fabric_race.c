/*
 * Two threads of server 1 count in memory of server 0: each reads the number, adds one and writes it back, through a word of the host that both
 * use. With a lock (locked) that is right. Without one it is a race, which ThreadSanitizer must find: in accesses of the program (raced), and
 * in a function of C that it calls (moved). The servers meet by files in the directory argv[2].
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "servers.h"

enum { COUNTS = 20, THREADS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int locked, moved;
static atomic_int met;
static void *far;
static volatile size_t width = sizeof(uint64_t); /* so that memmove is called */

/* Both have read the number, and neither has called the library since: its calls order threads for ThreadSanitizer. So does nothing here. */
static void meet(int round)
{
	atomic_fetch_add_explicit(&met, 1, memory_order_relaxed);
	while (atomic_load_explicit(&met, memory_order_relaxed) < (round + 1) * THREADS)
		sched_yield();
}

static void *counts(void *unused)
{
	uint64_t *word = (uint64_t *)host;
	aclrtStream mine;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&mine));
	for (int i = 0; i < COUNTS; i++) {
		if (locked)
			pthread_mutex_lock(&lock);
		OK(aclrtMemcpyAsync(word, sizeof(*word), far, sizeof(*word), ACL_MEMCPY_DEVICE_TO_HOST, mine));
		OK(aclrtSynchronizeStream(mine));
		if (!locked)
			meet(i);
		if (moved)
			memmove(word, &(uint64_t){7}, width);
		else
			(*word)++;
		OK(aclrtMemcpyAsync(far, sizeof(*word), word, sizeof(*word), ACL_MEMCPY_HOST_TO_DEVICE, mine));
		OK(aclrtSynchronizeStream(mine));
		if (locked)
			pthread_mutex_unlock(&lock);
	}
	OK(aclrtDestroyStream(mine));
	return unused;
}

static void *map(aclrtDrvMemHandle h)
{
	void *p;
	OK(aclrtReserveMemAddress(&p, SIZE, 0, NULL, 0));
	OK(aclrtMapMem(p, SIZE, 0, h, 0));
	return p;
}

static void owner(void)
{
	aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
		.memAttr = ACL_HBM_MEM_HUGE, .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle h;
	aclrtMemFabricHandle f;
	OK(aclrtMallocPhysical(&h, SIZE, &prop, 0));
	void *p = map(h);
	OK(aclrtMemset(p, SIZE, 0, SIZE));
	OK(aclrtMemExportToShareableHandleV2(h, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &f));
	put("handle", &f, sizeof(f));
	hear("done");
	OK(aclrtMemcpy(host, sizeof(uint64_t), p, sizeof(uint64_t), ACL_MEMCPY_DEVICE_TO_HOST));
	if (locked && *(uint64_t *)host != COUNTS * THREADS)
		FAIL("the other server counted to %llu", (unsigned long long)*(uint64_t *)host);
	OK(aclrtUnmapMem(p));
	OK(aclrtReleaseMemAddress(p));
	OK(aclrtFreePhysical(h));
}

static void user(void)
{
	aclrtMemFabricHandle f;
	aclrtDrvMemHandle h;
	pthread_t threads[THREADS];
	get("handle", &f, sizeof(f));
	OK(aclrtMemImportFromShareableHandleV2(&f, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &h));
	far = map(h);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, counts, NULL) != 0)
			FAIL("no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	OK(aclrtUnmapMem(far));
	OK(aclrtReleaseMemAddress(far));
	OK(aclrtFreePhysical(h));
	say("done");
}

int main(int argc, char **argv)
{
	const char *server = getenv("ROPEWAY_POD_SERVER");
	if (argc != 3 || server == NULL)
		FAIL("no mode, directory or server");
	locked = strcmp(argv[1], "locked") == 0;
	moved = strcmp(argv[1], "moved") == 0;
	dir = argv[2];
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtMallocHost((void **)&host, SIZE));
	(strcmp(server, "0") == 0 ? owner : user)();
	OK(aclrtFreeHost(host));
	OK(aclrtDestroyStream(stream));
	OK(aclrtResetDevice(0));
	OK(aclFinalize());
	return 0;
}
