package kernel

import (
	"encoding/binary"
	"fmt"
)

// The loader of the C library trusts a shared object: a wrong address in its tables ends the process. Loadable checks
// every address that the loader follows.

// Kinds of segments, and tags of the dynamic table.
const (
	segLoad     = 1
	segDynamic  = 2
	segNote     = 4
	segTLS      = 7
	segProperty = 0x6474e553
	segRelro    = 0x6474e552

	segExec, segWrite = 1, 2

	tagNeeded, tagPltRelSize, tagPltGot, tagHash, tagStrings, tagSymbols = 1, 2, 3, 4, 5, 6
	tagRela, tagRelaSize, tagRelaEntry, tagStringsSize, tagSymbolEntry   = 7, 8, 9, 10, 11
	tagInit, tagFini, tagSoname, tagRpath, tagPltRel, tagTextRel         = 12, 13, 14, 15, 20, 22
	tagPltRela, tagInitArray, tagFiniArray, tagInitSize, tagFiniSize     = 23, 25, 26, 27, 28
	tagRunpath, tagRelrSize, tagRelr, tagRelrEntry                       = 29, 35, 36, 37
	tagGnuHash, tagVersions, tagRelaCount                                = 0x6ffffef5, 0x6ffffff0, 0x6ffffff9
	tagDefined, tagDefinedCount                                          = 0x6ffffffc, 0x6ffffffd
	tagWanted, tagWantedCount                                            = 0x6ffffffe, 0x6fffffff
	tagAuxiliary, tagFilter                                              = 0x7ffffffd, 0x7fffffff

	symIndirect = 10 // its value is the address of a function that returns the address
)

// needed are the tags that the loader reads without checking whether they exist, by the tag of a table.
var needed = map[uint64][]uint64{
	tagStrings: {tagStringsSize}, tagSymbols: {tagSymbolEntry}, tagRela: {tagRelaSize, tagRelaEntry},
	tagPltRela: {tagPltRelSize, tagPltRel, tagPltGot}, tagRelr: {tagRelrSize, tagRelrEntry},
	tagInitArray: {tagInitSize}, tagFiniArray: {tagFiniSize},
	tagWanted: {tagWantedCount}, tagDefined: {tagDefinedCount},
}

// Limits for the addresses, the alignment and the thread-local memory of a shared object.
const mostAddresses, mostAligned, mostTLS = 1 << 36, 1 << 30, 1 << 20

// Relocations without a symbol, by machine.
var (
	relRelative = map[uint16]uint32{62: 8, 183: 1027}
	relIndirect = map[uint16]uint32{62: 37, 183: 1032}
)

// loadable is a shared object that is being checked.
type loadable struct {
	image    []byte
	machine  uint16
	loads    []segment
	tags     map[uint64]uint64
	strings  uint64 // bytes
	versions uint16 // the highest number of a version
}

type segment struct {
	kind, flags                         uint32
	offset, addr, inFile, size, aligned uint64
}

// Loadable returns an error, which wraps [ErrImage], if the loader might fault on a shared object. It does not check
// the code.
func Loadable(image []byte) (err error) {
	const head, entry, shared = 64, 56, 3
	le := binary.LittleEndian
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrImage, fmt.Sprintf(format, args...))
	}
	if len(image) < head || string(image[:4]) != "\x7fELF" || image[4] != 2 || image[5] != 1 ||
		le.Uint16(image[16:]) != shared {
		return bad("it is not a shared object of 64 bits")
	}
	at, n := le.Uint64(image[32:]), uint64(le.Uint16(image[56:]))
	if size := uint64(len(image)); le.Uint16(image[54:]) != entry || at > size || n*entry > size-at {
		return bad("its program headers are not all there")
	}
	o := &loadable{image: image, machine: le.Uint16(image[18:]), tags: map[uint64]uint64{}}
	var others []segment
	for i := range n {
		h := image[at+i*entry:]
		s := segment{le.Uint32(h), le.Uint32(h[4:]), le.Uint64(h[8:]), le.Uint64(h[16:]), le.Uint64(h[32:]),
			le.Uint64(h[40:]), le.Uint64(h[48:])}
		if s.kind != segLoad {
			others = append(others, s)
			continue
		}
		if s.offset > uint64(len(image)) || s.inFile > uint64(len(image))-s.offset || s.inFile > s.size ||
			s.addr > mostAddresses || s.size > mostAddresses || s.aligned > mostAligned ||
			s.aligned&(s.aligned-1) != 0 || s.aligned > 0 && (s.addr-s.offset)%s.aligned != 0 {
			return bad("segment %d is not all there", i)
		}
		if last := len(o.loads) - 1; last >= 0 && s.addr < o.loads[last].addr+o.loads[last].size {
			return bad("segment %d overlaps the one before", i)
		}
		o.loads = append(o.loads, s)
	}
	defer func() {
		if why := recover(); why != nil {
			err = bad("%v", why)
		}
	}()
	for _, s := range others {
		o.segment(s)
	}
	if o.tags[tagStrings] == 0 || o.tags[tagSymbols] == 0 {
		return bad("it has no table of symbols")
	}
	o.tables()
	o.functions()
	return nil
}

// outside is the panic value for an address outside the shared object.
type outside string

func (o *loadable) need(ok bool, format string, args ...any) {
	if !ok {
		panic(outside(fmt.Sprintf(format, args...)))
	}
}

// in returns the loaded segment that contains [addr, addr+n), or nil.
func (o *loadable) in(addr, n uint64) *segment {
	for i := range o.loads {
		if s := &o.loads[i]; addr >= s.addr && addr-s.addr <= s.size && n <= s.size-(addr-s.addr) {
			return s
		}
	}
	return nil
}

// bytes returns the n bytes at an address, which must be in the file.
func (o *loadable) bytes(what string, addr, n uint64) []byte {
	s := o.in(addr, n)
	o.need(s != nil && addr-s.addr+n <= s.inFile, "%s leads out of the file", what)
	return o.image[s.offset+addr-s.addr:][:n]
}

func (o *loadable) word(what string, addr uint64) uint32 {
	return binary.LittleEndian.Uint32(o.bytes(what, addr, 4))
}

func (o *loadable) executable(what string, addr uint64) {
	s := o.in(addr, 1)
	o.need(s != nil && s.flags&segExec != 0, "%s leads out of the code", what)
}

func (o *loadable) text(what string, at uint64) {
	o.need(at < o.strings, "%s has a name outside of the names", what)
}

// segment checks a segment that is part of another, loaded one.
func (o *loadable) segment(s segment) {
	const entry = 16
	switch s.kind {
	case segNote, segProperty, segDynamic:
		o.bytes("a note, or the dynamic table,", s.addr, s.inFile)
	case segRelro:
		o.need(o.in(s.addr, 0) != nil && s.size <= mostAddresses, "what is read-only later is not loaded")
	case segTLS:
		o.need(s.inFile <= s.size && s.size <= mostTLS && s.aligned <= mostTLS && s.aligned&(s.aligned-1) == 0,
			"the thread-local memory is too large")
		o.bytes("thread-local memory", s.addr, s.inFile)
	}
	if s.kind != segDynamic {
		return
	}
	ended := false
	for b := o.bytes("the dynamic table", s.addr, s.inFile); len(b) >= entry && !ended; b = b[entry:] {
		tag := binary.LittleEndian.Uint64(b)
		ended = tag == 0
		o.tags[tag] = binary.LittleEndian.Uint64(b[8:])
	}
	o.need(ended, "the dynamic table has no end")
	o.need(o.in(s.addr, s.inFile).flags&segWrite != 0, "the dynamic table cannot be written")
}

// tables checks the tables that the dynamic table points to.
func (o *loadable) tables() {
	o.strings = o.tags[tagStringsSize]
	names := o.bytes("the table of names", o.tags[tagStrings], o.strings)
	o.need(len(names) > 0 && names[len(names)-1] == 0, "the last name has no end")
	for _, tag := range []uint64{tagNeeded, tagSoname, tagRpath, tagRunpath, tagAuxiliary, tagFilter} {
		if at, ok := o.tags[tag]; ok {
			o.text("the dynamic table", at)
		}
	}
	sizes := map[uint64]uint64{tagSymbolEntry: 24, tagRelaEntry: 24, tagRelrEntry: 8, tagPltRel: tagRela}
	for tag, size := range sizes {
		if is, ok := o.tags[tag]; ok {
			o.need(is == size, "entries of a table have %d bytes", is)
		}
	}
	for table, rest := range needed {
		for _, tag := range rest {
			_, has := o.tags[table]
			_, complete := o.tags[tag]
			o.need(!has || complete, "the dynamic table has %d, and does not have %d", table, tag)
		}
	}
	o.versionTables()
	o.hashes()
	arrays := map[uint64]bool{} // words of the lists of functions, and whether they are relocated
	for list, size := range map[uint64]uint64{tagInitArray: tagInitSize, tagFiniArray: tagFiniSize} {
		if at, ok := o.tags[list]; ok {
			o.need(at%8 == 0 && o.tags[size]%8 == 0, "a list of functions is not aligned")
			o.bytes("a list of functions", at, o.tags[size])
			for i := uint64(0); i < o.tags[size]; i += 8 {
				arrays[at+i] = false
			}
		}
	}
	for _, tag := range []uint64{tagInit, tagFini} {
		if at, ok := o.tags[tag]; ok {
			o.executable("a function of the dynamic table", at)
		}
	}
	if at, ok := o.tags[tagPltGot]; ok {
		o.bytes("the table of addresses", at, 0)
		o.need(o.in(at, 24) != nil && o.in(at, 24).flags&segWrite != 0, "the table of addresses cannot be written")
	}
	o.relative(arrays)
	o.relocations(tagRela, tagRelaSize, arrays)
	o.relocations(tagPltRela, tagPltRelSize, arrays)
	o.need(o.tags[tagRelaCount] <= o.tags[tagRelaSize]/24, "there are fewer relocations than it says")
	for at, relocated := range arrays {
		o.need(relocated, "the function at %#x of a list has no address", at)
	}
}

// functions checks that the initialization and termination functions start at a section of code or at a symbol, if
// the file has these.
func (o *loadable) functions() {
	const entry, code, symbols, symbolSize = 64, 1, 2, 24
	le := binary.LittleEndian
	at, n, size := le.Uint64(o.image[40:]), uint64(le.Uint16(o.image[60:])), uint64(len(o.image))
	if le.Uint16(o.image[58:]) != entry || at > size || n*entry > size-at {
		return // the loader needs no sections
	}
	begins, named := map[uint64]bool{}, false
	for h := o.image[at:][:n*entry]; len(h) > 0; h = h[entry:] {
		addr, offset, bytes := le.Uint64(h[16:]), le.Uint64(h[24:]), le.Uint64(h[32:])
		switch le.Uint32(h[4:]) {
		case code:
			begins[addr] = true
		case symbols:
			if offset > size || bytes > size-offset {
				return
			}
			named = true
			for s := o.image[offset:][:bytes]; len(s) >= symbolSize; s = s[symbolSize:] {
				begins[le.Uint64(s[8:])] = true
			}
		}
	}
	for _, tag := range []uint64{tagInit, tagFini} {
		addr, ok := o.tags[tag]
		o.need(!ok || !named || begins[addr], "a function of the dynamic table, %#x, begins inside another", addr)
	}
}

// relocations checks a table of relocations.
func (o *loadable) relocations(table, size uint64, arrays map[uint64]bool) {
	const entry = 24
	le := binary.LittleEndian
	_, anywhere := o.tags[tagTextRel]
	o.need(o.tags[size]%entry == 0, "a table of relocations has half an entry")
	for b := o.bytes("a table of relocations", o.tags[table], o.tags[size]); len(b) > 0; b = b[entry:] {
		at, kind, sym, addend := le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[16:])
		if kind == 0 {
			continue
		}
		s := o.in(at, 8)
		o.need(s != nil && (anywhere || s.flags&segWrite != 0), "a relocation at %#x cannot be written", at)
		o.symbol(uint64(sym))
		switch kind {
		case relRelative[o.machine]:
			if _, ok := arrays[at]; ok {
				o.executable("a list of functions", addend)
			}
		case relIndirect[o.machine]:
			o.executable("a relocation", addend)
		}
		if _, ok := arrays[at]; ok {
			arrays[at] = true
		}
	}
}

// relative checks the packed table of relative relocations.
func (o *loadable) relative(arrays map[uint64]bool) {
	size := o.tags[tagRelrSize]
	if o.tags[tagRelr] == 0 || size == 0 {
		return
	}
	le := binary.LittleEndian
	add := func(at uint64) {
		s := o.in(at, 8)
		o.need(s != nil && s.flags&segWrite != 0, "a relocation at %#x cannot be written", at)
		if _, ok := arrays[at]; ok {
			o.executable("a list of functions", le.Uint64(o.bytes("a list of functions", at, 8)))
			arrays[at] = true
		}
	}
	next := uint64(0)
	for b := o.bytes("a table of relocations", o.tags[tagRelr], size); len(b) >= 8; b = b[8:] {
		word := le.Uint64(b)
		if word&1 == 0 {
			add(word)
			next = word + 8
			continue
		}
		for i := uint64(0); i < 63; i++ {
			if word>>(i+1)&1 != 0 {
				add(next + 8*i)
			}
		}
		next += 63 * 8
	}
}

// symbol checks the symbol of a number.
func (o *loadable) symbol(i uint64) {
	b := o.bytes("the table of symbols", o.tags[tagSymbols]+24*i, 24)
	o.text("a symbol", uint64(binary.LittleEndian.Uint32(b)))
	if b[4]&15 == symIndirect && binary.LittleEndian.Uint16(b[6:]) != 0 {
		o.executable("a symbol", binary.LittleEndian.Uint64(b[8:]))
	}
	if at := o.tags[tagVersions]; at != 0 {
		v := binary.LittleEndian.Uint16(o.bytes("the versions of symbols", at+2*i, 2))
		o.need(v&0x7fff <= o.versions, "a symbol has version %d, of %d", v&0x7fff, o.versions)
	}
}

// hashes checks the hash tables of symbols, and the symbols in them.
func (o *loadable) hashes() {
	if at, ok := o.tags[tagHash]; ok {
		buckets, chains := uint64(o.word("a hash table", at)), uint64(o.word("a hash table", at+4))
		o.need(buckets > 0, "a hash table is empty")
		for b := o.bytes("a hash table", at+8, 4*(buckets+chains)); len(b) > 0; b = b[4:] {
			o.need(uint64(binary.LittleEndian.Uint32(b)) < max(chains, 1), "a hash table leads out of the symbols")
		}
		seen := make([]bool, chains)
		for i := range buckets {
			for s := o.word("a hash table", at+8+4*i); s != 0 && !seen[s]; {
				seen[s] = true
				o.symbol(uint64(s))
				s = o.word("a hash table", at+8+4*(buckets+uint64(s)))
			}
		}
	}
	at, ok := o.tags[tagGnuHash]
	if !ok {
		return
	}
	buckets, first := uint64(o.word("a hash table", at)), uint64(o.word("a hash table", at+4))
	filter, shift := uint64(o.word("a hash table", at+8)), o.word("a hash table", at+12)
	o.need(buckets > 0 && filter > 0 && filter&(filter-1) == 0 && shift < 64, "a hash table has an impossible size")
	o.bytes("a hash table", at+16, 8*filter+4*buckets)
	chains := at + 16 + 8*filter + 4*buckets
	last := uint64(0)
	for b := o.bytes("a hash table", at+16+8*filter, 4*buckets); len(b) > 0; b = b[4:] {
		i := uint64(binary.LittleEndian.Uint32(b))
		o.need(i == 0 || i >= first, "a hash table leads out of the symbols")
		last = max(last, i)
	}
	if last == 0 {
		return
	}
	for i := first; ; i++ {
		o.symbol(i)
		if end := o.word("a hash table", chains+4*(i-first))&1 != 0; end && i >= last {
			return
		}
	}
}

// versionTables checks the tables of versions, and finds the highest number.
func (o *loadable) versionTables() {
	le := binary.LittleEndian
	o.versions = 1
	walk := func(table, count uint64, size, next uint64, f func(b []byte, at uint64)) {
		at := o.tags[table]
		for range o.tags[count] {
			b := o.bytes("a table of versions", at, size)
			f(b, at)
			step := uint64(le.Uint32(b[next:]))
			if step == 0 {
				return
			}
			at += step
		}
	}
	walk(tagWanted, tagWantedCount, 16, 12, func(b []byte, at uint64) {
		o.text("a table of versions", uint64(le.Uint32(b[4:])))
		at += uint64(le.Uint32(b[8:]))
		for n := le.Uint16(b[2:]); n > 0; n-- {
			a := o.bytes("a table of versions", at, 16)
			o.versions = max(o.versions, le.Uint16(a[6:])&0x7fff)
			o.text("a version", uint64(le.Uint32(a[8:])))
			if le.Uint32(a[12:]) == 0 {
				return
			}
			at += uint64(le.Uint32(a[12:]))
		}
	})
	walk(tagDefined, tagDefinedCount, 20, 16, func(b []byte, at uint64) {
		o.versions = max(o.versions, le.Uint16(b[4:])&0x7fff)
		a := o.bytes("a table of versions", at+uint64(le.Uint32(b[12:])), 8)
		o.text("a version", uint64(le.Uint32(a)))
	})
}
