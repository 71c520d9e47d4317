package kernel

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	ptxEntry = regexp.MustCompile(`(?s)\.entry\s+([A-Za-z_$%][\w$]*)\s*(?:\(([^)]*)\))?`)
	ptxParam = regexp.MustCompile(`^\.param\s+(?:\.align\s+(\d+)\s+)?\.([bsuf])(\d+)\s+(?:\.ptr[^%\w]*(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?[\w$%]+(?:\[(\d+)\])?$`)
	ptxNote  = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
)

// readPTX reads the entries of a PTX text and their parameters.
func (t *Table) readPTX(image []byte, o Options) error {
	source := ptxNote.ReplaceAllString(string(image), " ")
	for _, e := range ptxEntry.FindAllStringSubmatch(source, -1) {
		if t.byName[e[1]] != nil {
			continue // declared before
		}
		params, total, err := ptxParams(e[2])
		if err != nil {
			return fmt.Errorf("entry %s: %w", e[1], err)
		}
		m := meta{params: params, declared: true, total: total}
		t.byName[e[1]] = gpuKernel(e[1], m, o)
	}
	if len(t.byName) == 0 {
		return fmt.Errorf("the PTX has no .entry")
	}
	t.number()
	return nil
}

// gpuKernel returns a kernel of a binary for GPUs: it has no halves, and can be launched with any number of threads.
func gpuKernel(name string, m meta, o Options) *Kernel {
	m.vector = Both
	return newKernel(name, name, 0, whole, m, o, true)
}

// readCubin adds the global functions of a cubin as its kernels.
func (t *Table) readCubin(f *file, o Options) {
	for _, s := range f.symbols {
		if s.defined && s.kind == symFunc && s.binding == symGlobal && s.name != "" && len(s.name) <= longestName {
			k := gpuKernel(s.name, meta{}, o)
			k.Code[0].Size, k.Code[1].Size = sizeIf(k.Code[0], s.size), sizeIf(k.Code[1], s.size)
			t.byName[s.name] = k
		}
	}
	t.number()
}

// sizeIf returns size, or 0 if there is no code.
func sizeIf(c Code, size uint64) uint64 {
	if c.Symbol == "" {
		return 0
	}
	return size
}

// ptxParams places parameters as CUDA does: each at a multiple of its alignment.
func ptxParams(list string) (params []Param, total uint64, err error) {
	var at uint64
	for p := range strings.SplitSeq(list, ",") {
		p = strings.TrimSpace(p)
		if p == "" {
			continue
		}
		f := ptxParam.FindStringSubmatch(p)
		if f == nil {
			return nil, 0, fmt.Errorf("parameter %q cannot be read", p)
		}
		bits, _ := strconv.ParseUint(f[3], 10, 16) //nolint:errcheck // digits
		size := bits / 8
		align := size
		if f[1] != "" {
			if align, err = strconv.ParseUint(f[1], 10, 16); err != nil || align == 0 {
				return nil, 0, fmt.Errorf("parameter %q: alignment", p)
			}
		}
		if f[4] != "" {
			n, err := strconv.ParseUint(f[4], 10, 24)
			if err != nil {
				return nil, 0, fmt.Errorf("parameter %q: %w", p, err)
			}
			size *= n
		}
		if align == 0 {
			return nil, 0, fmt.Errorf("parameter %q has no size", p)
		}
		at = (at + align - 1) / align * align
		params = append(params, Param{Offset: uint32(at), Size: uint32(size)})
		at += size
	}
	return params, at, nil
}
