package modeltest

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// memory is how much of the context's device is free.
func memory(ctx *settings) (free, total uint64, err *core.Error) {
	err = ctx.GetMemInfo(abi.MemAttrHBMMem, &free, &total)
	return
}
