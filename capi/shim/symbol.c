/* Variables on devices: ropeway/symbol.h. */
#include "shim.h"

#include "ropeway/symbol.h"

EXPORT aclError ropeway_register_symbol(const void *symbol, size_t size, const void *init)
{
	uint64_t a[] = {(uintptr_t)symbol, size, (uintptr_t)init};
	return (aclError)call(ROPEWAY_SYMBOL, a);
}
