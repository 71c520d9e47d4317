/*
 * ropeway/symbol.h: variables that live on devices, without a compiler that makes them.
 *
 * The functions of acl_rt.h with a symbol (aclrtMemcpyToSymbol and its kin) take the address of a host variable that stands for one
 * on devices. The vendor's compiler makes such variables known when it loads a program's kernels. Here a program does it itself.
 */
#ifndef ROPEWAY_SYMBOL_H
#define ROPEWAY_SYMBOL_H

#include <stddef.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of libascendcl.so; use the function below. */
extern aclError ropeway_register_symbol(const void *symbol, size_t size, const void *init) __attribute__((weak));

/*
 * Makes symbol, an address that is never followed, stand for a variable of size bytes on every device. init is its initial value, size
 * bytes that are copied now, or NULL for zeros. A device has the variable from its first use there until the device is reset. To register
 * a symbol again with the same size changes nothing. Where AscendCL is not ropeway's the answer is 207000.
 */
static inline aclError ropewayRegisterSymbol(const void *symbol, size_t size, const void *init)
{
	return ropeway_register_symbol ? ropeway_register_symbol(symbol, size, init) : ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

#ifdef __cplusplus
}
#endif

#endif
