/*
 * Weights are read from a file into a pinned buffer that is smaller than what is asked for. The kernel writes up to the end.
 *
 * finds: host-out-of-bounds (error)
 * offence: written in main at OFFENCE
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 65536+65536 of pinned 65536
 */
#include "program.h"

#include <fcntl.h>
#include <unistd.h>

enum { WEIGHTS = 128 << 10 };

int main(void)
{
	aclrtStream stream = start();
	size_t room = WEIGHTS / 2;
	void *host;
#ifdef FIXED
	room = WEIGHTS;
#endif
	int file = open("/dev/zero", O_RDONLY);
	if (file < 0)
		return 1;
	ACL(aclrtMallocHost(&host, room)); // ALLOCATED
	ssize_t got = read(file, host, WEIGHTS); // OFFENCE
	printf("%zd bytes\n", got);
	close(file);
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
