/* The kernels of functions_kernel.c. put says its parameters, as a compiler for devices would. */
#include <stdint.h>

#include "ropeway/kernel.h"

uint32_t scale = 3;

void add_7(const uint32_t *x, uint32_t *y, uint64_t n)
{
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		y[i] += x[i];
}

void times(uint32_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		p[i] *= scale;
}

void tiled(uint32_t *p, const uint32_t *tiling)
{
	p[0] = tiling[0] + tiling[1];
}

/* For the AI CPU: the argument is the address of the arguments. */
uint32_t cpu_double(uint32_t **args)
{
	**args *= 2;
	return 0;
}

void wild(volatile int *p)
{
	*p = 1;
}

/* Two parameters, of 8 and 4 bytes, and vector functions of threads. */
__attribute__((section(".ascend.meta.put"), used)) static const unsigned char meta_put[] = {
	16, 0, 12, 0, 2, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0,
	17, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	17, 0, 36, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	12, 0, 4, 0, 3, 0, 0, 0,
};

void put(uint32_t *p, uint32_t v)
{
	__atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
