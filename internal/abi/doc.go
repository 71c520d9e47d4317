// Package abi holds the numbers and memory layouts of the AscendCL C headers.
//
// Go names follow the C names: aclrtMemcpyKind is [MemcpyKind],
// ACL_MEMCPY_HOST_TO_DEVICE is [MemcpyHostToDevice], ACL_ERROR_RT_PARAM_INVALID
// is [ErrRTParamInvalid]. Members of an enum whose C names do not begin with a
// common word carry the type's name: ACL_DEVICE is [RunModeDevice].
package abi
