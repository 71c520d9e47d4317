/* The kernel of vector_add.c, for a CPU: an ordinary function, called once for each block. */
#include <ropeway/kernel.h>

void vector_add(const float *x, const float *y, float *z, uint64_t n)
{
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		z[i] = x[i] + y[i];
}
