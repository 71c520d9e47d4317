package symbol

import (
	"cmp"
	"debug/elf"
	"slices"
	"strings"
)

// symbol is a function in a symbol table.
type symbol struct {
	address, size uint64
	name          string
	rank          int // the name with the lowest rank at an address is used
}

// mostSymbols is the largest size of a symbol table, and of its names.
const mostSymbols = 64 << 20

// symbol returns the name of the function at an address; "" if no table has one.
func (m *module) symbol(address uint64) string {
	if !m.named {
		m.named = true
		m.symbols = m.readSymbols()
		for _, s := range m.symbols {
			m.bytes += 48 + len(s.name)
		}
	}
	i, _ := slices.BinarySearchFunc(m.symbols, address, func(s symbol, address uint64) int {
		if s.address <= address {
			return -1
		}
		return 1
	})
	if i == 0 {
		return ""
	}
	s := m.symbols[i-1]
	if s.size > 0 && address-s.address >= s.size {
		return ""
	}
	return demangled(s.name)
}

// readSymbols reads the functions from the symbol table of the file, of its debug file, or from its dynamic symbol
// table.
func (m *module) readSymbols() []symbol {
	file, err := openELF(m.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if found := file.functions(elf.SHT_SYMTAB, file.Symbols); found != nil {
		return found
	}
	if debug := m.openDebug(file); debug != nil {
		defer debug.Close()
		if found := debug.functions(elf.SHT_SYMTAB, debug.Symbols); found != nil {
			return found
		}
	}
	return file.functions(elf.SHT_DYNSYM, file.DynamicSymbols)
}

// functions reads one table. The result is sorted and has one entry for each address.
func (f *elfFile) functions(table elf.SectionType, read func() ([]elf.Symbol, error)) []symbol {
	s := f.SectionByType(table)
	if s == nil || s.Size > mostSymbols || int(s.Link) >= len(f.Sections) || f.Sections[s.Link].Size > mostSymbols {
		return nil
	}
	all, err := read()
	if err != nil {
		return nil
	}
	var found []symbol
	for _, s := range all {
		if s.Section == elf.SHN_UNDEF || int(s.Section) >= len(f.Sections) || s.Value == 0 {
			continue
		}
		kind := elf.ST_TYPE(s.Info)
		code := f.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0
		if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC && (kind != elf.STT_NOTYPE || !code ||
			strings.HasPrefix(s.Name, "$")) {
			continue
		}
		name, _, _ := strings.Cut(s.Name, "@") // without its version
		if name != "" {
			found = append(found, symbol{s.Value, s.Size, strings.Clone(name), rank(name, s)})
		}
	}
	slices.SortFunc(found, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name))
	})
	return slices.CompactFunc(found, func(a, b symbol) bool { return a.address == b.address })
}

// rank returns a lower value for names with a size, then for public ones, then for fewer leading underscores, then
// for short ones.
func rank(name string, s elf.Symbol) int {
	r := min(len(name), 999)
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") {
		r += 1000 * (len(name) - len(strings.TrimLeft(name, "_")))
	}
	if elf.ST_BIND(s.Info) == elf.STB_LOCAL {
		r += 1 << 20
	}
	if s.Size == 0 {
		r += 1 << 21
	}
	return r
}
