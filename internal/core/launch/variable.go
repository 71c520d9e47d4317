package launch

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// BinaryGetGlobal is aclrtBinaryGetGlobal.
func BinaryGetGlobal(t *core.Thread, handle core.Handle, name *byte, dptr *Addr, size *uint64) *core.Error {
	b, c, err := checkBinaryGetGlobal(t, handle, name, dptr, size)
	if err != nil {
		return err
	}
	addr, n, err := b.global("aclrtBinaryGetGlobal", c, core.CString(name))
	if err != nil {
		return err
	}
	if dptr != nil {
		*dptr = addr
	}
	if size != nil {
		*size = n
	}
	return nil
}

// global returns the address of a variable on the device of c.
func (b *binary) global(api string, c *core.Context, name string) (Addr, uint64, *core.Error) {
	p, err := b.place(api, c, true)
	if err != nil {
		return 0, 0, err
	}
	v, ok := b.table.Global(name)
	if !ok {
		v.Symbol = name
		v.Size, ok = p.module.Variable(name)
	}
	if !ok {
		return 0, 0, core.Fail(api, abi.ErrRTSymbolNotFound, "name", "the binary has no variable %q", name)
	}
	addr, e := p.module.Global(v.Symbol, v.Size)
	if e != nil {
		return 0, 0, core.Fail(api, abi.ErrRTSymbolNotFound, "name", "%v", e)
	}
	return addr, v.Size, nil
}

// RegisterVariable is rtRegisterVariable: compiled code says which variable of the program stands for one of a binary.
func RegisterVariable(t *core.Thread, handle core.Handle, hostVar Addr, name *byte, size uint64, flags uint32,
	reserve Addr) *core.Error {
	const api = "rtRegisterVariable"
	b, err := checkRegisterVariable(t, handle, hostVar, name, size, flags, reserve)
	if err != nil {
		return err
	}
	text := core.CString(name)
	if _, ok := b.table.Global(text); !ok && !b.table.GPU() {
		return core.Fail(api, abi.ErrRTSymbolNotFound, "deviceVarName", "the binary has no variable %q", text)
	}
	transfer.DefineVariable(t.Runtime, hostVar, size, func(api string, c *core.Context) (Addr, *core.Error) {
		addr, _, err := b.global(api, c, text)
		return addr, err
	})
	return nil
}
