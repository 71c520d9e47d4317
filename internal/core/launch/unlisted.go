package launch

import (
	"ropeway/internal/core"
	"ropeway/internal/kernel"
)

// find is the kernel of a name on a device where the binary is, or nil. What the binary does not say of its kernels,
// the device may.
func (b *binary) find(p *placed, name string) *kernel.Kernel {
	k := b.table.Find(name)
	if b.forCPU() && k == nil {
		core.Locked(&b.mu, func() { k = b.names[name] })
		return k
	}
	if k != nil || !b.table.Open || p == nil || p.module == nil {
		return k
	}
	if _, err := p.module.Code(name); err != nil {
		return nil
	}
	return b.unlisted(name)
}

// unlisted is a kernel that a binary may have whose kernels cannot be read. Asked again it is the same.
func (b *binary) unlisted(name string) *kernel.Kernel {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.names[name]
	if k == nil {
		k = b.table.Unlisted(name, b.options)
		b.names[name] = k
	}
	return k
}

// described is k with its parameters, if the binary does not have them and the device does.
func described(p *placed, k *kernel.Kernel) *kernel.Kernel {
	if k.HasParams || p == nil || p.module == nil {
		return k
	}
	code, err := p.module.Code(k.Name)
	if err != nil {
		return k
	}
	if list, known := p.module.Params(code); known {
		return k.WithParams(list)
	}
	return k
}
