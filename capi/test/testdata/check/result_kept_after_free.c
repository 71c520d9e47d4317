/*
 * A pointer into pinned memory is used after the memory was freed. There is nothing behind it any more: on hardware that is
 * luck, here it is a crash, and the checker says why.
 *
 * finds: use-after-free (error)
 * offence: read in main at OFFENCE
 * other: freed aclrtFreeHost in main at FREED
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 128+4 of pinned 256
 */
#include "program.h"

enum { SIZE = 256 };

int main(void)
{
	aclrtStream stream = start();
	int *scores;
	ACL(aclrtMallocHost((void **)&scores, SIZE)); // ALLOCATED
	memset(scores, 0, SIZE);
	volatile int *best = scores + 32;
#ifdef FIXED
	printf("%d\n", *best);
#endif
	ACL(aclrtFreeHost(scores)); // FREED
#ifndef FIXED
	printf("%d\n", *best); // OFFENCE
#endif
	finish(stream);
	return 0;
}
