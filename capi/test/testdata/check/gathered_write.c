/*
 * Header and body go out with one writev, while the body still comes down from the device.
 *
 * finds: host-read-in-flight (error)
 * offence: read in send_message at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 256+768 of pinned 1024
 */
#include <sys/uio.h>
#include <unistd.h>

#include "program.h"

enum { HEADER = 256, BODY = 768 };

static void send_message(int to, char *message)
{
	struct iovec parts[] = {{message, HEADER}, {message + HEADER, BODY}};
	if (writev(to, parts, 2) != HEADER + BODY) // OFFENCE
		exit(2);
}

int main(void)
{
	aclrtStream stream = start();
	FILE *file = tmpfile();
	char *message;
	void *device;
	ACL(aclrtMallocHost((void **)&message, HEADER + BODY)); // ALLOCATED
	ACL(aclrtMalloc(&device, BODY, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, BODY, 'b', BODY));

	ACL(aclrtMemcpyAsync(message + HEADER, BODY, device, BODY, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	memset(message, 'h', HEADER);
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	send_message(fileno(file), message);

	ACL(aclrtSynchronizeStream(stream));
	fclose(file);
	ACL(aclrtFreeHost(message));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
