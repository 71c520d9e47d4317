/*
 * The last row is copied with the size of the whole image as its limit: the limit would let the next wrong count through.
 *
 * finds: out-of-bounds (warning)
 * offence: called aclrtMemcpy in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 3072+4096 of device 4096
 */
#include "program.h"

enum { ROW = 1024, ROWS = 4, SIZE = ROW * ROWS };

int main(void)
{
	aclrtStream stream = start();
	static char row[ROW];
	char *image;
	ACL(aclrtMalloc((void **)&image, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	size_t offset = (ROWS - 1) * ROW, most = SIZE;
#ifdef FIXED
	most -= offset;
#endif
	ACL(aclrtMemcpy(image + offset, most, row, ROW, ACL_MEMCPY_HOST_TO_DEVICE)); // OFFENCE
	ACL(aclrtFree(image));
	finish(stream);
	return 0;
}
