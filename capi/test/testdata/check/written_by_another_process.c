/*
 * Two processes share memory, by key and by handle, and each reads what the other one wrote. At the end the first saves memory that
 * neither has.
 *
 * finds: uninitialised-read (warning)
 * offence: called aclrtMemcpy in save at OFFENCE
 * other: allocated aclrtMalloc in exporter at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

enum { SIZE = 4096, PIECE = 2 << 20, KEY = 65 };

static int to_importer[2], to_exporter[2];

static void say(int fd, const void *what, size_t n)
{
	if (write(fd, what, n) != (ssize_t)n)
		exit(1);
}

static void hear(int fd, void *what, size_t n)
{
	if (read(fd, what, n) != (ssize_t)n)
		exit(1);
}

/* save copies memory to the host and wants every byte to be the one given; -1: any. */
static void save(void *from, int byte)
{
	static unsigned char host[SIZE];
	ACL(aclrtMemcpy(host, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_HOST)); // OFFENCE
	if (byte >= 0 && (host[0] != byte || host[SIZE - 1] != byte))
		exit(1);
}

static void *mapped(aclrtDrvMemHandle memory)
{
	void *at;
	ACL(aclrtReserveMemAddress(&at, PIECE, 0, NULL, 0));
	ACL(aclrtMapMem(at, PIECE, 0, memory, 0));
	return at;
}

static void unmap(void *at, aclrtDrvMemHandle memory)
{
	ACL(aclrtUnmapMem(at));
	ACL(aclrtReleaseMemAddress(at));
	ACL(aclrtFreePhysical(memory));
}

static int importer(void)
{
	char key[KEY], done = 1;
	uint64_t number;
	void *by_key;
	aclrtDrvMemHandle memory;
	aclrtStream stream = start();
	int32_t me = getpid();
	say(to_exporter[1], &me, sizeof me);
	hear(to_importer[0], key, KEY);
	hear(to_importer[0], &number, sizeof number);
	ACL(aclrtIpcMemImportByKey(&by_key, key, 0));
	ACL(aclrtMemImportFromShareableHandle(number, 0, &memory));
	void *by_handle = mapped(memory);
	save(by_key + SIZE, 1);
	save(by_handle + SIZE, 1);
	ACL(aclrtMemset(by_key, SIZE, 2, SIZE));
	ACL(aclrtMemset(by_handle, SIZE, 2, SIZE));
	ACL(aclrtIpcMemClose(key));
	unmap(by_handle, memory);
	say(to_exporter[1], &done, 1);
	finish(stream);
	return 0;
}

static void exporter(void)
{
	char key[KEY], done;
	uint64_t number;
	int32_t other;
	void *by_key, *spare;
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle memory;
	aclrtStream stream = start();
	ACL(aclrtMalloc(&by_key, PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&spare, PIECE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMallocPhysical(&memory, PIECE, &prop, 0));
	void *by_handle = mapped(memory);
	ACL(aclrtMemset(by_key + SIZE, SIZE, 1, SIZE));
	ACL(aclrtMemset(by_handle + SIZE, SIZE, 1, SIZE));

	hear(to_exporter[0], &other, sizeof other);
	ACL(aclrtIpcMemGetExportKey(by_key, PIECE, key, KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
	ACL(aclrtIpcMemSetImportPid(key, &other, 1));
	ACL(aclrtMemExportToShareableHandle(memory, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
	ACL(aclrtMemSetPidToShareableHandle(number, &other, 1));
	say(to_importer[1], key, KEY);
	say(to_importer[1], &number, sizeof number);
	hear(to_exporter[0], &done, 1);
	save(by_key, 2);
	save(by_handle, 2);
#ifndef FIXED
	save(spare, -1);
#endif

	ACL(aclrtIpcMemClose(key));
	unmap(by_handle, memory);
	ACL(aclrtFree(by_key));
	ACL(aclrtFree(spare));
	finish(stream);
}

int main(void)
{
	int status;
	if (pipe(to_importer) || pipe(to_exporter))
		return 1;
	if (fork() == 0)
		return importer();
	exporter();
	return wait(&status) < 0 || status != 0;
}
