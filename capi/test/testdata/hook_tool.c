/*
 * A tool as others write them: it puts functions of its own in place of 17 functions of the API, counts their calls and prints
 * the counts when the process ends. TOOL_RESULT is what its entry returns.
 */
#include <acl/acl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long calls[17];

/* A hook that counts and calls the original. */
#define HOOK(i, f, parameters, arguments) \
	static aclError (*original_##f) parameters; \
	static aclError hook_##f parameters \
	{ \
		atomic_fetch_add(&calls[i], 1); \
		return original_##f arguments; \
	}

HOOK(0, aclrtLaunchKernelWithHostArgs,
     (aclrtFuncHandle f, uint32_t blocks, aclrtStream s, aclrtLaunchKernelCfg *c, void *args, size_t n,
      aclrtPlaceHolderInfo *p, size_t k), (f, blocks, s, c, args, n, p, k))
HOOK(1, aclrtMemcpy, (void *d, size_t m, const void *s, size_t n, aclrtMemcpyKind k), (d, m, s, n, k))
HOOK(2, aclrtBinaryLoadFromData, (const void *p, size_t n, const aclrtBinaryLoadOptions *o, aclrtBinHandle *b), (p, n, o, b))
HOOK(3, aclrtBinaryGetFunction, (const aclrtBinHandle b, const char *name, aclrtFuncHandle *f), (b, name, f))
HOOK(4, aclrtMalloc, (void **p, size_t n, aclrtMemMallocPolicy policy), (p, n, policy))
HOOK(5, aclrtMemset, (void *p, size_t m, int32_t v, size_t n), (p, m, v, n))
HOOK(6, aclrtFree, (void *p), (p))
HOOK(7, aclrtCreateStream, (aclrtStream *s), (s))
HOOK(8, aclrtDestroyStream, (aclrtStream s), (s))
HOOK(9, aclrtSetDevice, (int32_t d), (d))
HOOK(10, aclrtResetDevice, (int32_t d), (d))
HOOK(11, aclrtSynchronizeStream, (aclrtStream s), (s))
HOOK(12, aclrtBinaryGetFunctionByEntry, (aclrtBinHandle b, uint64_t entry, aclrtFuncHandle *f), (b, entry, f))
HOOK(13, aclrtLaunchKernel, (aclrtFuncHandle f, uint32_t blocks, const void *args, size_t n, aclrtStream s), (f, blocks, args, n, s))
HOOK(14, aclrtBinaryUnLoad, (aclrtBinHandle b), (b))
HOOK(15, aclrtSynchronizeStreamWithTimeout, (aclrtStream s, int32_t ms), (s, ms))
HOOK(16, aclrtSynchronizeDevice, (void), ())

#define ENTRY(f) {#f, (aclrtApiFunc *)&original_##f, (aclrtApiFunc)(void (*)(void))hook_##f}
static const struct {
	const char *name;
	aclrtApiFunc *original, hook;
} hooks[] = {
	ENTRY(aclrtLaunchKernelWithHostArgs), ENTRY(aclrtMemcpy), ENTRY(aclrtBinaryLoadFromData), ENTRY(aclrtBinaryGetFunction),
	ENTRY(aclrtMalloc), ENTRY(aclrtMemset), ENTRY(aclrtFree), ENTRY(aclrtCreateStream), ENTRY(aclrtDestroyStream),
	ENTRY(aclrtSetDevice), ENTRY(aclrtResetDevice), ENTRY(aclrtSynchronizeStream), ENTRY(aclrtBinaryGetFunctionByEntry),
	ENTRY(aclrtLaunchKernel), ENTRY(aclrtBinaryUnLoad), ENTRY(aclrtSynchronizeStreamWithTimeout), ENTRY(aclrtSynchronizeDevice),
};

static void print(void)
{
	for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
		if (calls[i])
			printf("%s %ld\n", hooks[i].name, (long)calls[i]);
}

__attribute__((visibility("default"))) int32_t ENTRY_NAME(void)
{
	const char *result = getenv("TOOL_RESULT");
	for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
		aclrtApiFunc current = NULL;
		if (aclrtApiInjectionGetFunc(hooks[i].name, hooks[i].original, &current) || !current || current != *hooks[i].original)
			return 1;
		if (aclrtApiInjectionSetFunc(hooks[i].name, hooks[i].hook))
			return 2;
	}
	atexit(print);
	return result ? atoi(result) : 0;
}
