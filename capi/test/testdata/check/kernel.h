/* A kernel of the programs about kernels: it adds n bytes at from to those at to, and says what it touches. */
#ifndef KERNEL_H
#define KERNEL_H

#include "program.h"
#include <ropeway/kernel.h>

struct add {
	unsigned char *to;
	const unsigned char *from;
	uint64_t n;
};

static inline int add_bytes(const ropeway_block *block, void *data)
{
	const struct add *a = (const struct add *)block->args;
	(void)data;
	ROPEWAY_READS(a->from, a->n);
	ROPEWAY_READS(a->to, a->n);
	ROPEWAY_WRITES(a->to, a->n);
	for (uint64_t i = block->idx; i < a->n; i += block->num)
		a->to[i] = (unsigned char)(a->to[i] + a->from[i]);
	return 0;
}

/* A function of the program as the kernel add_bytes. On an NPU it would come from a file. */
static inline aclrtFuncHandle load_kernel(aclrtBinHandle *binary)
{
	ropeway_function list[1];
	list[0].name = "add_bytes";
	list[0].call = add_bytes;
	list[0].data = NULL;
	aclrtFuncHandle function;
	ACL(ropeway_load_functions(list, 1, binary));
	ACL(aclrtBinaryGetFunction(*binary, "add_bytes", &function));
	return function;
}

#endif
