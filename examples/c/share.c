/*
 * One buffer, two processes. The first fills device memory and gives the second a key for it; the second sees the same bytes, not a
 * copy of them, and what it writes the first sees. The key goes through a pipe: a process that has it, and is on the list, has the memory.
 */
#define _POSIX_C_SOURCE 200809L

#include <string.h>

#include "process.h"

enum { SIZE = 2 * 1024 * 1024, KEY = 65 };

/* The second process: its key comes from standard input. */
static int visit(void)
{
	char key[KEY + 1];
	expect(fgets(key, sizeof(key), stdin) != NULL, "no key came");
	key[strcspn(key, "\n")] = '\0';

	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	void *buffer;
	ACL(aclrtIpcMemImportByKey(&buffer, key, 0));
	unsigned char *seen = malloc(SIZE);
	expect(seen != NULL, "there is no memory");
	ACL(aclrtMemcpy(seen, SIZE, buffer, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < SIZE; i++)
		expect(seen[i] == (unsigned char)(i % 251), "the second process sees other bytes");
	printf("The second process read the %d bytes that the first had written.\n", SIZE);

	for (int i = 0; i < SIZE; i++)
		seen[i] = (unsigned char)(i % 241);
	ACL(aclrtMemcpy(buffer, SIZE, seen, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	free(seen);
	ACL(aclrtIpcMemClose(key)); /* importers first, the exporter last */
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return visit();
	FILE *to;
	pid_t other = start(argv[0], "visit", &to);

	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	void *buffer;
	ACL(aclrtMalloc(&buffer, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	unsigned char *source = malloc(SIZE);
	expect(source != NULL, "there is no memory");
	for (int i = 0; i < SIZE; i++)
		source[i] = (unsigned char)(i % 251);
	ACL(aclrtMemcpy(buffer, SIZE, source, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));

	/* Only processes on the list may import it: here, the one that was started. */
	char key[KEY];
	ACL(aclrtIpcMemGetExportKey(buffer, SIZE, key, sizeof(key), 0));
	int32_t pid = other;
	ACL(aclrtIpcMemSetImportPid(key, &pid, 1));
	fprintf(to, "%s\n", key);
	fclose(to);
	finish(other);

	ACL(aclrtMemcpy(source, SIZE, buffer, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int i = 0; i < SIZE; i++)
		expect(source[i] == (unsigned char)(i % 241), "what the second process wrote is not there");
	printf("It changed every byte, and the first process sees the change.\n");

	free(source);
	ACL(aclrtIpcMemClose(key));
	ACL(aclrtFree(buffer));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
