/*
 * A notify between two processes: the stream of one waits until the stream of the other has written a buffer that both have. No
 * host waits for another, and no message says that the bytes are there: the order is the devices' own.
 */
#define _POSIX_C_SOURCE 200809L

#include <string.h>

#include "process.h"

enum { SIZE = 2 * 1024 * 1024, KEY = 65, TIMEOUT = 60 };

static void read_key(char *key)
{
	expect(fgets(key, KEY + 1, stdin) != NULL, "no key came");
	key[strcspn(key, "\n")] = '\0';
}

/* The second process writes, and then records. */
static int deliver(void)
{
	char memory[KEY + 1], key[KEY + 1];
	read_key(memory);
	read_key(key);
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));
	void *buffer;
	ACL(aclrtIpcMemImportByKey(&buffer, memory, 0));
	aclrtNotify notify;
	ACL(aclrtNotifyImportByKey(&notify, key, 0));

	unsigned char *source;
	ACL(aclrtMallocHost((void **)&source, SIZE));
	for (int i = 0; i < SIZE; i++)
		source[i] = (unsigned char)(i % 239);
	ACL(aclrtMemcpyAsync(buffer, SIZE, source, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtRecordNotify(notify, stream)); /* after the copy, in the order of the stream */
	ACL(aclrtSynchronizeStream(stream));
	printf("The second process has copied, and recorded the notify.\n");

	ACL(aclrtDestroyNotify(notify));
	ACL(aclrtIpcMemClose(memory));
	ACL(aclrtFreeHost(source));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return deliver();
	FILE *to;
	pid_t other = start(argv[0], "deliver", &to);

	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));
	void *buffer;
	ACL(aclrtMalloc(&buffer, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(buffer, SIZE, 0, SIZE));
	aclrtNotify notify;
	ACL(aclrtCreateNotify(&notify, 0));
	unsigned char *result;
	ACL(aclrtMallocHost((void **)&result, SIZE));

	/* The stream waits from here on; whether the second process has even begun does not matter. */
	ACL(aclrtWaitAndResetNotify(notify, stream, TIMEOUT));
	ACL(aclrtMemcpyAsync(result, SIZE, buffer, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	printf("The stream of the first process waits for the notify.\n");

	int32_t pid = other;
	char memory[KEY], key[KEY];
	ACL(aclrtIpcMemGetExportKey(buffer, SIZE, memory, sizeof(memory), 0));
	ACL(aclrtIpcMemSetImportPid(memory, &pid, 1));
	ACL(aclrtNotifyGetExportKey(notify, key, sizeof(key), 0));
	ACL(aclrtNotifySetImportPid(notify, &pid, 1));
	fflush(stdout);
	fprintf(to, "%s\n%s\n", memory, key);
	fclose(to);

	ACL(aclrtSynchronizeStream(stream)); /* if the other process fails, the wait ends after its timeout, with an error */
	for (int i = 0; i < SIZE; i++)
		expect(result[i] == (unsigned char)(i % 239), "the copy did not wait for the bytes");
	finish(other);
	printf("All %d bytes were there when the waiting copy ran.\n", SIZE);

	ACL(aclrtDestroyNotify(notify));
	ACL(aclrtIpcMemClose(memory));
	ACL(aclrtFreeHost(result));
	ACL(aclrtFree(buffer));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
