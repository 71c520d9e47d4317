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

/*
 * Says which memory the block reads and writes, for ropeway check: it then judges the kernel as it judges copies. What a kernel reads
 * before it writes it, it reads. A kernel that says nothing is not judged, and what its arguments lead to counts as written. Where nothing is
 * checked, this does nothing.
 */
#define ROPEWAY_READS(address, bytes) ropeway_touches((address), (bytes), 0)
#define ROPEWAY_WRITES(address, bytes) ropeway_touches((address), (bytes), 1)
void ropeway_touches(const void *address, size_t bytes, int writes);

/* Writes to standard output, as printf does. One call's text stays together. */
int ropeway_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * For tests: functions of the program as kernels. ropeway_load_functions makes a binary of them, in which they are looked up, launched
 * and unloaded like others; it copies the list, in which no name is there twice. A function is called once for each block, on several threads at the same time. It must
 * not call ropeway_block_barrier. If it does not return 0, the launch fails as one of a kernel that traps. It is not interrupted, and what it
 * does wrong is not caught. Returns an error code of AscendCL; 0 is success.
 */
typedef struct ropeway_block {
	uint32_t idx, num, sub, reserved;
	const void *args;
	size_t size;
} ropeway_block;

typedef struct ropeway_function {
	const char *name;
	int (*call)(const ropeway_block *block, void *data);
	void *data;
} ropeway_function;

int ropeway_load_functions(const ropeway_function *list, size_t count, void **binary);

#ifdef __cplusplus
}
#endif

#endif
