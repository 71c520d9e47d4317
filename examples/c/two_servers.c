/*
 * One block of a KV cache, two servers. Server 0 has it in device memory and exports a fabric handle, 128 bytes that travel by a file here
 * and by any means between machines. Server 1 maps the same memory, reads it and changes it. Server 0 does nothing for that.
 *
 *     ropeway run --pod 2 ./two_servers /tmp/block
 */
#define _POSIX_C_SOURCE 200809L

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { SIZE = 4 * 1024 * 1024, PAGE = 16 * 1024 };

/* What both servers do: addresses for the memory, which the device may use. */
static void *map(aclrtDrvMemHandle handle)
{
	void *block;
	ACL(aclrtReserveMemAddress(&block, SIZE, 0, NULL, 0));
	ACL(aclrtMapMem(block, SIZE, 0, handle, 0));
	aclrtMemAccessDesc access = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE, .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	ACL(aclrtMemSetAccess(block, SIZE, &access, 1));
	return block;
}

static void unmap(void *block, aclrtDrvMemHandle handle)
{
	ACL(aclrtUnmapMem(block));
	ACL(aclrtReleaseMemAddress(block));
	ACL(aclrtFreePhysical(handle));
}

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* The server that has the block. */
static void own(const char *file, unsigned char *host, aclrtStream stream)
{
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle handle;
	ACL(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
	void *block = map(handle);
	for (int i = 0; i < SIZE; i++)
		host[i] = (unsigned char)(i % 251);
	ACL(aclrtMemcpyAsync(block, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtSynchronizeStream(stream));

	/* With flag 1 any process of the pod may import it; with 0 those that are named. */
	aclrtMemFabricHandle fabric;
	ACL(aclrtMemExportToShareableHandleV2(handle, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &fabric));
	char part[4096];
	expect(snprintf(part, sizeof(part), "%s.part", file) < (int)sizeof(part), "the name of the file is too long");
	FILE *f = fopen(part, "w");
	expect(f != NULL && fwrite(&fabric, sizeof(fabric), 1, f) == 1 && fclose(f) == 0 && rename(part, file) == 0, "the handle cannot be written");
	while (access(file, F_OK) == 0) /* the other server removes it when it is done */
		rest();

	ACL(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < SIZE; i++)
		expect(host[i] == (unsigned char)(i % (i / PAGE % 2 ? 241 : 251)), "what the other server wrote is not there");
	printf("Server 0 sees the pages that server 1 wrote, and the others as they were.\n");
	unmap(block, handle);
}

/* The server that uses it. */
static void use(const char *file, unsigned char *host, aclrtStream stream)
{
	aclrtMemFabricHandle fabric;
	FILE *f;
	while ((f = fopen(file, "r")) == NULL)
		rest();
	expect(fread(&fabric, sizeof(fabric), 1, f) == 1, "the handle cannot be read");
	fclose(f);
	aclrtDrvMemHandle handle;
	ACL(aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &handle));
	void *block = map(handle);
	ACL(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < SIZE; i++)
		expect(host[i] == (unsigned char)(i % 251), "server 1 sees other bytes");
	printf("Server 1 read the %d bytes of server 0.\n", SIZE);

	/* Every other page, with a copy each. */
	for (int i = 0; i < SIZE; i++)
		host[i] = (unsigned char)(i % 241);
	for (int i = PAGE; i < SIZE; i += 2 * PAGE)
		ACL(aclrtMemcpyAsync((char *)block + i, PAGE, host + i, PAGE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtSynchronizeStream(stream));
	unmap(block, handle);
	expect(remove(file) == 0, "the file cannot be removed");
}

int main(int argc, char **argv)
{
	const char *server = getenv("ROPEWAY_POD_SERVER");
	expect(argc == 2 && server != NULL, "start it with ropeway run --pod 2, and with a file for the handle");
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));
	void *host;
	ACL(aclrtMallocHost(&host, SIZE));
	if (strcmp(server, "0") == 0)
		own(argv[1], host, stream);
	else
		use(argv[1], host, stream);
	ACL(aclrtFreeHost(host));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
