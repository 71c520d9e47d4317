/*
 * kernel_numbers: functions of the program as kernels, whose data are small numbers rather than addresses, as those of acl.util are. They
 * are loaded so often that the Go runtime, with GOGC=1, looks at the stack of a call that has them.
 */
#include <acl/acl.h>
#include <ropeway/kernel.h>
#include <stdint.h>
#include <stdio.h>

#include "check.h"

enum { FUNCTIONS = 512, ROUNDS = 600 };

static uintptr_t seen;

static int note(const ropeway_block *block, void *data)
{
	(void)block;
	seen = (uintptr_t)data;
	return 0;
}

int main(void)
{
	static char names[FUNCTIONS][8];
	static ropeway_function list[FUNCTIONS];
	for (int i = 0; i < FUNCTIONS; i++) {
		snprintf(names[i], sizeof names[i], "k%d", i);
		list[i] = (ropeway_function){names[i], note, (void *)(uintptr_t)(i + 1)};
	}
	aclrtStream stream;
	uint64_t args = 0;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	for (int round = 0; round < ROUNDS; round++) {
		aclrtBinHandle binary;
		aclrtFuncHandle function;
		int which = round % FUNCTIONS;
		OK(ropeway_load_functions(list, FUNCTIONS, &binary));
		OK(aclrtBinaryGetFunction(binary, names[which], &function));
		OK(aclrtLaunchKernelWithHostArgs(function, 1, stream, NULL, &args, sizeof args, NULL, 0));
		OK(aclrtSynchronizeStream(stream));
		CHECK(seen == (uintptr_t)which + 1);
		OK(aclrtBinaryUnLoad(binary));
	}
	return 0;
}
