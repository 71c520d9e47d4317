package symbol

import (
	"cmp"
	"debug/dwarf"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/ianlancetaylor/demangle"

	"ropeway/internal/finding"
)

// mostUnits is the largest number of compile units of a module that stay parsed.
const mostUnits = 32

// debugInfo is the debug information of a module.
type debugInfo struct {
	data  *dwarf.Data
	text  uint64  // the lowest address of code; entries below it are of code that the linker has removed
	units []*unit // least recently used first
}

// unit is a compile unit: the debug information of a source file and its includes.
type unit struct {
	ranges    [][2]uint64
	functions []function // by their first address, outer before inner
	rows      []row      // by address
	files     []*dwarf.LineFile
	plusPlus  bool   // it is C++
	dir       string // compilation directory, to which relative names of files refer
}

// function is a function that has code of its own. It may have several parts.
type function struct {
	low, high uint64
	entry     dwarf.Offset
}

// row gives the line of the code from address to the next row; file is nil at the end of the code.
type row struct {
	address uint64
	file    *dwarf.LineFile
	line    int
}

// debugData reads the sections with debug information, and returns their size. It returns nil if there is no such
// information, or if it is too large.
func (f *elfFile) debugData() (data *dwarf.Data, size int) {
	content := map[string][]byte{}
	for _, name := range debugSections {
		if s := f.section(name); s != nil {
			content[name] = readSection(s, uint64(mostBytes-size))
			size += len(content[name])
		}
	}
	if content["info"] == nil || content["abbrev"] == nil {
		return nil, 0
	}
	data, err := dwarf.New(content["abbrev"], nil, nil, content["info"], content["line"], nil,
		content["ranges"], content["str"])
	if err != nil {
		return nil, 0
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if err := data.AddSection(".debug_"+name, content[name]); err != nil {
			return nil, 0
		}
	}
	return data, size
}

// frames returns the functions at an address, innermost first; nil if the debug information does not cover it. whole
// is false if a symbol table may have a longer name of the last one: C++ compilers omit the name space of local
// functions.
func (d *debugInfo) frames(address uint64) (frames []finding.Frame, whole bool) {
	u := d.unit(address)
	if u == nil {
		return nil, false
	}
	var frame finding.Frame
	if r := u.row(address); r != nil {
		frame.File, frame.Line = u.path(r.file.Name), r.line
	}
	f := u.function(address)
	if f == nil {
		if frame.File == "" {
			return nil, false
		}
		return []finding.Frame{frame}, false
	}
	calls := d.calls(f.entry, address)
	for i := len(calls) - 1; i >= 0; i-- {
		frame.Function, whole = d.name(calls[i], 0)
		frame.Inlined = i > 0
		frames = append(frames, frame)
		frame = finding.Frame{File: u.file(calls[i]), Line: number(calls[i], dwarf.AttrCallLine)}
	}
	return frames, whole || !u.plusPlus
}

// unit returns the compile unit of an address, and parses it if it is not cached.
func (d *debugInfo) unit(address uint64) *unit {
	for i, u := range d.units {
		if holds(u.ranges, address) {
			d.units = append(slices.Delete(d.units, i, i+1), u)
			return u
		}
	}
	entry, err := d.data.Reader().SeekPC(address)
	if err != nil {
		return nil
	}
	ranges, err := d.data.Ranges(entry)
	if err != nil {
		return nil
	}
	u := &unit{ranges: ranges, plusPlus: isPlusPlus(number(entry, dwarf.AttrLanguage))}
	u.dir, _ = entry.Val(dwarf.AttrCompDir).(string)
	d.readFunctions(u, entry)
	d.readLines(u, entry)
	if len(d.units) == mostUnits {
		d.units = slices.Delete(d.units, 0, 1)
	}
	d.units = append(d.units, u)
	return u
}

func holds(ranges [][2]uint64, address uint64) bool {
	return slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= address && address < r[1] })
}

// readFunctions collects the functions of a unit. They may be inside name spaces, classes and other functions.
func (d *debugInfo) readFunctions(u *unit, entry *dwarf.Entry) {
	r := d.data.Reader()
	r.Seek(entry.Offset)
	for depth := 0; ; {
		e, err := r.Next()
		if e == nil || err != nil {
			break
		}
		if e.Tag == dwarf.TagSubprogram {
			ranges, _ := d.data.Ranges(e)
			for _, part := range ranges {
				if part[0] >= d.text {
					u.functions = append(u.functions, function{part[0], part[1], e.Offset})
				}
			}
		}
		switch {
		case e.Tag == 0:
			depth--
		case e.Children && (e.Tag == dwarf.TagEnumerationType || e.Tag == dwarf.TagSubroutineType ||
			e.Tag == dwarf.TagArrayType):
			r.SkipChildren()
		case e.Children:
			depth++
		}
		if depth <= 0 {
			break
		}
	}
	slices.SortFunc(u.functions, func(a, b function) int {
		return cmp.Or(cmp.Compare(a.low, b.low),
			cmp.Compare(b.high, a.high))
	})
}

// function returns the innermost function at an address.
func (u *unit) function(address uint64) *function {
	var found *function
	for i := range u.functions {
		f := &u.functions[i]
		if f.low > address {
			break
		}
		if address < f.high && (found == nil || f.high-f.low <= found.high-found.low) {
			found = f
		}
	}
	return found
}

// readLines reads the line table of a unit. It skips code that the linker has removed.
func (d *debugInfo) readLines(u *unit, entry *dwarf.Entry) {
	r, err := d.data.LineReader(entry)
	if r == nil || err != nil {
		return
	}
	var e dwarf.LineEntry
	begin := 0 // of the current sequence
	for r.Next(&e) == nil {
		next := row{e.Address, e.File, e.Line}
		if e.EndSequence {
			next.file = nil
		}
		u.rows = append(u.rows, next)
		if e.EndSequence {
			if u.rows[begin].address < d.text {
				u.rows = u.rows[:begin]
			}
			begin = len(u.rows)
		}
	}
	u.files = r.Files()
	// If a sequence begins at the end of another, the beginning takes precedence. Otherwise the order stays: the last
	// of several rows for one address is valid.
	slices.SortStableFunc(u.rows, func(a, b row) int {
		if a.address != b.address {
			return cmp.Compare(a.address, b.address)
		}
		if (a.file == nil) == (b.file == nil) {
			return 0
		}
		if a.file == nil {
			return -1
		}
		return 1
	})
}

// row returns the row of an address.
func (u *unit) row(address uint64) *row {
	i, _ := slices.BinarySearchFunc(u.rows, address, func(r row, address uint64) int {
		if r.address <= address {
			return -1
		}
		return 1
	})
	if i == 0 || u.rows[i-1].file == nil {
		return nil
	}
	return &u.rows[i-1]
}

// calls returns a function and the functions inlined in it at an address, outermost first.
func (d *debugInfo) calls(function dwarf.Offset, address uint64) []*dwarf.Entry {
	r := d.data.Reader()
	r.Seek(function)
	first, err := r.Next()
	if first == nil || err != nil {
		return nil
	}
	found := []*dwarf.Entry{first}
	if !first.Children {
		return found
	}
	for depth := 1; depth > 0; {
		e, err := r.Next()
		if e == nil || err != nil {
			break
		}
		if e.Tag == 0 {
			depth--
			continue
		}
		if !e.Children && e.Tag != dwarf.TagInlinedSubroutine {
			continue
		}
		inside := false
		switch e.Tag {
		case dwarf.TagInlinedSubroutine:
			ranges, _ := d.data.Ranges(e)
			if inside = holds(ranges, address); inside {
				found = append(found, e)
			}
		case dwarf.TagLexDwarfBlock, dwarf.TagTryDwarfBlock, dwarf.TagCatchDwarfBlock:
			inside = true // the ranges of blocks need not be complete
		}
		if e.Children {
			if inside {
				depth++
			} else {
				r.SkipChildren()
			}
		}
	}
	return found
}

// name returns the name of a function. It may be in another entry: of the declaration, or of the function before
// inlining. whole means that it is the linkage name.
func (d *debugInfo) name(e *dwarf.Entry, hops int) (name string, whole bool) {
	for _, attribute := range []dwarf.Attr{dwarf.AttrLinkageName, attrOldLinkageName} {
		if name, ok := e.Val(attribute).(string); ok {
			return demangled(name), true
		}
	}
	if hops < 8 {
		for _, attribute := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
			if at, ok := e.Val(attribute).(dwarf.Offset); ok {
				r := d.data.Reader()
				r.Seek(at)
				if other, err := r.Next(); other != nil && err == nil {
					if name, whole := d.name(other, hops+1); name != "" {
						return name, whole
					}
				}
			}
		}
	}
	name, _ = e.Val(dwarf.AttrName).(string)
	return demangled(name), false
}

// isPlusPlus reports whether a language, by its number in the standard, is a version of C++.
func isPlusPlus(language int) bool { return slices.Contains([]int{0x04, 0x1a, 0x21, 0x2b}, language) }

const attrOldLinkageName dwarf.Attr = 0x2007 // compilers gave it this number before there was a standard one

// clones matches suffixes that compilers append to the names of functions that they split or specialise.
var clones = regexp.MustCompile(`(\.(cold|constprop|part|isra|lto_priv)(\.\d+)?)+$`)

// demangled returns a function's name without its parameters; lines distinguish overloads well enough.
func demangled(name string) string {
	name = clones.ReplaceAllString(name, "")
	return demangle.Filter(name, demangle.NoParams, demangle.NoEnclosingParams, demangle.NoClones)
}

// file returns the file of the call of an inlined function.
func (u *unit) file(call *dwarf.Entry) string {
	i := number(call, dwarf.AttrCallFile)
	if i < 0 || i >= len(u.files) || u.files[i] == nil {
		return ""
	}
	return u.path(u.files[i].Name)
}

// path returns the full name of a file of the unit, as far as it is known.
func (u *unit) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(u.dir, name)
}

func number(e *dwarf.Entry, attribute dwarf.Attr) int {
	n, _ := e.Val(attribute).(int64)
	return int(n)
}
