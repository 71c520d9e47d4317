//go:build amd64 && !noasm && !race

package memcopy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func init() {
	for name, k := range map[string]*kernels{"interpreted-avx512": &kernelsAVX512, "interpreted-avx2": &kernelsAVX2} {
		interpreted[name] = func(t testing.TB) {
			p := mustProgram(t, routineName(k.copySegments))
			old := active
			t.Cleanup(func() { active = old })
			active = &kernels{name: name, copySegments: segmentsOf(p, func(err error) { t.Fatal(err) })}
		}
	}
}

type segmentsFunc = func(list *uintptr, bytes, toLo, toSize, toBy, fromLo, fromSize, fromBy, streamMin uintptr) uintptr

// segmentsOf runs p on real memory. It may read the list and from, write to, and
// ask for nothing else; failed is told what goes wrong. streamed is how many
// bytes the last call has written past the cache.
var streamed int

func segmentsOf(p *program, failed func(error)) segmentsFunc {
	return func(list *uintptr, bytes, toLo, toSize, toBy, fromLo, fromSize, fromBy, streamMin uintptr) uintptr {
		entries := bytesOf(list, bytes)
		to, from := pinned(toLo+toBy, toSize), pinned(fromLo+fromBy, fromSize)
		to.write, from.read = true, true
		mem := &memory{steps: 200 * int(bytes) / segmentBytes, spans: []span{{lo: uint64(addrOf(entries)), data: entries, read: true}, to, from}}
		mem.asked = func(addr uint64) {
			for _, s := range mem.spans[1:] {
				if addr-s.lo < uint64(len(s.data)) {
					return
				}
			}
			panic(faultf("%#x is asked for, outside the frames", addr))
		}
		const none = 1<<64 - 5
		args := []uint64{uint64(addrOf(entries)), uint64(bytes), uint64(toLo), uint64(toSize), uint64(toBy),
			uint64(fromLo), uint64(fromSize), uint64(fromBy), uint64(streamMin), none}
		err := p.run(mem, args...)
		if streamed = mem.streamed; err != nil {
			failed(err)
			return 0
		}
		return uintptr(args[len(args)-1])
	}
}

func pinned(addr, n uintptr) span {
	if n == 0 {
		return span{}
	}
	return span{lo: uint64(addr), data: bytesOf((*uintptr)(pointer(addr)), n)}
}

// trial is the cases that tell a wrong routine from a right one.
type trial struct {
	dst, src, want []byte
	to, from       Frame
	lists          [][]Segment
}

func newTrial(t *testing.T) *trial {
	const size = 5*SegmentMax + pageBytes
	mem := newRegion(t, 2*size)
	r := &trial{dst: mem.data[:size], src: mem.data[size:], want: make([]byte, size)}
	pattern(r.src)
	// The frames touch, so ranges can overlap where one frame ends.
	r.to = Frame{1 << 63, size - 64, mem.addr - 1<<63}
	r.from = Frame{1<<45 + 1, size, mem.addr + size - 128 - (1<<45 + 1)}
	add := func(list ...[3]int) {
		var all []Segment
		for _, s := range list {
			all = append(all, Segment{r.to.Lo + uintptr(s[0]), r.from.Lo + uintptr(s[1]), uint64(s[2])})
		}
		r.lists = append(r.lists, all)
	}
	fine := [3]int{40, 200, 9}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 258, 300, 511, 512, 513, 514, 800, 1023, 1024, 1025, 1032, 1087, 1088, 1280, 1300, 1343, 1536, 2048, 5120, 8191, 8192, 8193, 8224, 8400, 8440, 8447} {
		add([3]int{64, 128, n}, [3]int{64 + n, 129 + n, n})
		add([3]int{65, 128, n}, fine, [3]int{2240 - n%64, 3100, n}, fine, [3]int{12001, 129 + n, n})
	}
	end, limit := int(r.to.Size), int(r.from.Size)
	for _, bad := range [][3]int{{-1, 200, 9}, {end - 8, 200, 9}, {end, 200, 0}, {40, -1, 9}, {40, limit - 8, 9}, {40, limit, 0}, {0, 200, SegmentMax + 1},
		{end - 63, 1, 64}, {end - 64, 1, 127}, {0, 200, -1}} {
		add(bad, fine)
		add(fine, fine, fine, fine, bad, fine)
	}
	add(fine, [3]int{end - 64, 128, 64}, [3]int{0, 200, SegmentMax}, [3]int{end - 1, limit - 1, 1}, [3]int{end - 1, limit - 1, 0}, fine)
	add([3]int{end - 64, 64, 64}, [3]int{end - 65, 0, 64}, fine, [3]int{end - 64, 0, 63}, fine)
	add([3]int{end - 64, 0, 64}, fine)
	add([3]int{end - 64, 1, 64}, fine)
	add([3]int{end - 63, 0, 63}, fine)
	add([3]int{end - 32, 0, 32}, [3]int{end - 31, 0, 31}, [3]int{end - 31, 1, 31}, fine)
	huge := [3]int{0, 200, SegmentMax}
	add(huge, huge, huge, huge, fine)
	add(huge, huge, huge, [3]int{0, 200, SegmentMax - 9}, fine, fine)
	add(huge, huge, huge, huge, [3]int{0, 200, 1}, fine)
	return r
}

// run compares p with the portable code.
func (r *trial) run(p *program) (err error) {
	call := segmentsOf(p, func(e error) { err = e })
	for i, list := range r.lists {
		paint(r.dst[:r.to.Size], canary)
		sum, most := uint64(0), 0
		for most < len(list) && sum+list[most].N <= 4*SegmentMax {
			sum += list[most].N
			most++
		}
		count := copySegmentsGeneric(list[:most], r.to, r.from)
		copy(r.want, r.dst)
		for _, least := range []uintptr{^uintptr(0), SegmentMax, 1024, 512} {
			paint(r.dst[:r.to.Size], canary)
			got := call(&list[0].Dst, uintptr(len(list))*segmentBytes, r.to.Lo, r.to.Size, r.to.Delta, r.from.Lo, r.from.Size, r.from.Delta, least)
			past := 0
			for _, s := range list[:count] {
				head := uint64(-(s.Dst + r.to.Delta) % lineBytes)
				if uintptr(s.N) >= least && (head == 0 && s.N%256 == 0 || s.N >= 8<<10) {
					past += int(s.N-head) / 256 * 256
				}
			}
			if err == nil && past != streamed {
				err = fmt.Errorf("%d bytes past the cache, want %d", streamed, past)
			}
			if err == nil && (int(got) != count*segmentBytes || !bytes.Equal(r.dst, r.want)) {
				err = errors.New("wrong result")
			}
			if err != nil {
				return fmt.Errorf("list %d, streamed from %d: %w", i, least, err)
			}
		}
	}
	return nil
}

func TestInterpSegmentMutants(t *testing.T) {
	r := newTrial(t)
	for _, name := range []string{"copySegmentsAVX512", "copySegmentsAVX2"} {
		p := mustProgram(t, name)
		if err := r.run(p); err != nil {
			t.Fatal(err)
		}
		if testing.Short() {
			continue
		}
		total := 0
		// What is between these only says what to ask for, and nothing outside the frames.
		ask, copying := slices.Index(p.source, "segment:"), slices.Index(p.source, "copy:")
		for i, line := range p.source {
			if i > ask && i < copying {
				continue
			}
			for _, m := range mutations(line) {
				if strings.Contains(m, "--") {
					continue
				}
				source := slices.Clone(p.source)
				if source[i] = m; m == "" {
					source = slices.Delete(source, i, i+1)
				}
				total++
				what := line + " -> " + m
				bad, err := parse(source)
				if err == nil && harmlessSegments[what] {
					continue
				}
				if err == nil {
					err = r.run(bad)
				}
				if err == nil {
					t.Errorf("not caught: %s: line %d: %s", name, i, what)
				} else if strings.Contains(err.Error(), "unknown") {
					t.Errorf("mutant is none: %s: %v", what, err)
				}
			}
		}
		t.Logf("%s: %d mutants", name, total)
	}
}

// harmlessSegments are the mutants that change no result.
var harmlessSegments = map[string]bool{}

func init() {
	for line, to := range map[string][]string{
		"JEQ done":             {"JAE done"},                                                                        // never beyond the end
		"SUBQ $0x00000030, R9": {"SUBQ $49, R9", "SUBQ $56, R9", "SUBQ $80, R9", "SUBQ $112, R9", "SUBQ $4144, R9"}, // asks for less
		// Bytes are copied twice: at the limit of two ways to copy, by the next block, at the end of whole lines.
		"CMPQ CX, $0x00000100": {"CMPQ CX, $255"},
		"JA large":             {"JAE large"},
		"CMPQ CX, $0x00000080": {"CMPQ CX, $129"},
		"CMPQ CX, $0x00000040": {"CMPQ CX, $65"},
		"CMPQ CX, $0x00000020": {"CMPQ CX, $33"},
		"CMPQ CX, $0x00000010": {"CMPQ CX, $17"},
		"CMPQ CX, $0x00000008": {"CMPQ CX, $9"},
		"CMPQ CX, $0x00000004": {"CMPQ CX, $5"},
		"JMP next":             {""},
		"JEQ next":             {"", "JA next", "JAE next"},
		"ADDQ $0x00000100, CX": {"", "ADDQ $192, CX", "ADDQ $248, CX", "ADDQ $257, CX", "ADDQ $264, CX", "ADDQ $288, CX", "ADDQ $320, CX",
			"ADDQ $4352, CX", "ADDQ $0x00000100, AX", "ADDQ $0x00000100, BX"},
		// A fence without need.
		"MOVQ streamMin+64(FP), DX": {"MOVQ streamMin+72(FP), DX"},
		"CMPQ DX, $0x00010000": {"CMPQ DX, $65537", "CMPQ DX, $65544", "CMPQ DX, $65568", "CMPQ DX, $65600", "CMPQ DX, $69632",
			"CMPQ SI, $0x00010000"},
		"JA unfenced": {""},
	} {
		for _, m := range to {
			harmlessSegments[line+" -> "+m] = true
		}
	}
}
