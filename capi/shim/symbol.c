/* Variables on devices: ropeway/symbol.h; functions of the program as kernels: ropeway/kernel.h. */
#include "shim.h"

#include "ropeway/kernel.h"
#include "ropeway/symbol.h"

EXPORT aclError ropeway_register_symbol(const void *symbol, size_t size, const void *init)
{
	uint64_t a[] = {(uintptr_t)symbol, size, (uintptr_t)init};
	return (aclError)call(ROPEWAY_SYMBOL, a);
}

EXPORT int ropeway_load_functions(const ropeway_function *list, size_t count, void **binary)
{
	uint64_t a[] = {(uintptr_t)list, count, (uintptr_t)binary};
	return (int)call(ROPEWAY_LOAD_FUNCTIONS, a);
}
