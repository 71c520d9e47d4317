/*
 * ropeway/kernel.h: kernels for the CPU, in C or C++.
 *
 * A kernel is an ordinary function of a shared object, with the name that the program launches. It is called once for each block,
 * on several threads at the same time. Each 8 bytes of the argument buffer are one argument, an integer or a pointer, up to 128 of them:
 *
 *     void add(const float *x, const float *y, float *z, uint64_t n)
 *     {
 *             for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
 *                     z[i] = x[i] + y[i];
 *     }
 *
 *     gcc -O2 -shared -fPIC -I include add.c -o add.so
 *
 * Floats and structures by value are not passed: ropeway_args leads to the buffer. C++ functions need extern "C".
 * The functions below are of libascendcl.so. Outside of a kernel they return 0.
 */
#ifndef ROPEWAY_KERNEL_H
#define ROPEWAY_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the block, from 0, and how many there are. */
uint32_t ropeway_block_idx(void);
uint32_t ropeway_block_num(void);

/* In a mix kernel that has two vector blocks for a cube block, or the other way round: which of the two, else 0. */
uint32_t ropeway_sub_block_idx(void);

/* The argument buffer. *size becomes its size in bytes; size may be NULL. */
const void *ropeway_args(size_t *size);

/* Of a SIMT launch, by dimension (0 x, 1 y, 2 z): the thread in its block, threads of a block, the block in the grid, blocks of the grid. */
uint32_t ropeway_thread_idx(int dimension);
uint32_t ropeway_thread_num(int dimension);
uint32_t ropeway_grid_idx(int dimension);
uint32_t ropeway_grid_num(int dimension);

/*
 * Returns when all blocks of the launch have called it. The blocks of an object that uses it run at the same time, each on a
 * thread of its own; a launch of more than 1024 fails.
 */
void ropeway_block_barrier(void);

/* Writes to standard output, as printf does. One call's text stays together. */
int ropeway_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
