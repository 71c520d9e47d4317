/* The kernel of vector_add.c, for a CPU: an ordinary function, called once for each block. */
#include <ropeway/kernel.h>

void vector_add(const float *x, const float *y, float *z, uint64_t n)
{
	ROPEWAY_READS(x, n * sizeof *x); /* for ropeway check */
	ROPEWAY_READS(y, n * sizeof *y);
	ROPEWAY_WRITES(z, n * sizeof *z);
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		z[i] = x[i] + y[i];
}
