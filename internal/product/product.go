// Package product describes the Ascend products and forms: features, limits, sizes.
//
// The facts are those of spec/semantics.md, sections 4, 6, 8, 9, 12, 20 and 22; values without a source (core counts,
// cache sizes) are those of a typical board and marked as our choice.
package product

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Product is one row of the support tables in one form. Values are shared and immutable.
type Product struct {
	Name string // as in the tables: A2, A3, 950, 310B, 310P, 910, 310
	Chip string // what aclrtGetSocName returns
	RC   bool   // the program runs on the device's own CPU

	// Limits per device.
	Streams, Events, Notifies int

	Batch          bool // batch copies
	UB             bool // connected over UB: a batch is validated and queued as a whole
	DescSize       int  // bytes of a copy descriptor; 0: no descriptor copies
	OffsetCopy     bool // copies whose bases are read on the device
	FillWords      bool // aclrtMemsetD32
	Register       bool // host registration
	Managed        bool // managed memory
	Pools          bool // memory pools
	IPCMemory      bool // device memory can be shared with other processes
	CountNotify    bool
	NotifyShared   bool    // notifies can be shared with other processes
	NotifyDevice   bool    // notifies for the device alone
	NotifyReset    bool    // notifies can be cleared outside streams
	EventFlags     bool    // record and wait flags, IPC events
	Peer           bool    // access between devices
	PeerEnable     bool    // access between devices must be enabled first
	Abort          bool    // stream abort, device task abort
	Random         bool    // random numbers
	ReduceKinds    bool    // reductions other than sums
	ReduceTypes    []int32 // types (aclDataType) that can be reduced
	Modern         bool    // 950, A3, A2: NULL streams where others refuse them, waits across devices, 1 GiB pages
	DDR            bool    // memory is DDR: HBM questions get its numbers
	Padding        uint64
	NoHostKind     bool  // A2, A3: an asynchronous copy declared as host to host is refused, whatever its addresses are
	Aligned        bool  // 310: addresses of asynchronous copies must be multiples of 64
	LateHostErrors bool  // 310: host-to-host and pageable copies are accepted and fail when they run
	DefaultSatMode int32 // 0 saturates, 1 gives INF and NAN
	WaitTimeout    bool  // a time limit of a single event wait counts

	// Operator time limits, in microseconds.
	OpInterval, OpDefault uint64
	OpNever               bool // 0 means no limit, not the longest

	// Numbers of the chip; those without a source are our choice, of a typical board.
	CubeCores, VectorCores, AICPUs int64
	L2Bytes                        int64
}

// usPerS is microseconds in a second.
const usPerS = 1_000_000

// Types that reductions know, by their number in the C API.
const (
	float   = 0
	float16 = 1
	int8s   = 2
	int32s  = 3
	int16s  = 6
	uint32s = 8
	bf16    = 27
)

var products = []Product{
	modern(Product{Name: "A2", Chip: "Ascend910B1", Managed: true, Pools: true, Random: true, DescSize: 32, Padding: 32,
		PeerEnable: true, NoHostKind: true,
		Notifies: 8192, DefaultSatMode: 1, CubeCores: 24, VectorCores: 48, AICPUs: 6,
		L2Bytes: 192 << 20}),
	modern(Product{Name: "A3", Chip: "Ascend910_9391", Managed: true, Random: true, DescSize: 32, Padding: 32,
		NoHostKind: true,
		Notifies:   8192, DefaultSatMode: 1, CubeCores: 24, VectorCores: 48, AICPUs: 6,
		L2Bytes: 192 << 20}),
	modern(Product{Name: "950", Chip: "Ascend950PR_9599", CountNotify: true, UB: true, DescSize: 64, PeerEnable: true,
		Notifies: 65535, ReduceTypes: []int32{int8s, int16s, int32s, uint32s, float16, float, bf16},
		DefaultSatMode: 1, CubeCores: 36, VectorCores: 72, AICPUs: 6, L2Bytes: 128 << 20}),
	{Name: "310B", Chip: "Ascend310B1", Streams: 512, Events: 65536, Notifies: 2048, DescSize: 32,
		Padding: 32, DDR: true,
		ReduceKinds: true, ReduceTypes: []int32{int8s, int16s, int32s, float16, float},
		WaitTimeout: true, OpInterval: 4294967, OpDefault: 1091 * usPerS,
		CubeCores: 1, VectorCores: 1, AICPUs: 3, L2Bytes: 4 << 20},
	{Name: "310P", Chip: "Ascend310P3", Streams: 1024, Events: 1023, Notifies: 1024, NotifyShared: true,
		NotifyDevice: true, IPCMemory: true, Padding: 32, DDR: true, Peer: true, PeerEnable: true,
		ReduceTypes: []int32{float, float16, int16s}, OpInterval: 2147483,
		OpDefault: 547 * usPerS,
		CubeCores: 8, VectorCores: 7, AICPUs: 7, L2Bytes: 16 << 20},
	{Name: "910", Chip: "Ascend910A", Streams: 2048, Events: 65535, Notifies: 1024, NotifyShared: true, IPCMemory: true,
		Padding: 32, Peer: true, PeerEnable: true,
		OffsetCopy: true, Register: true, ReduceTypes: []int32{float}, OpInterval: 68719476,
		OpDefault: 68 * usPerS,
		CubeCores: 32, VectorCores: 32, AICPUs: 14, L2Bytes: 32 << 20},
	{Name: "310", Chip: "Ascend310", Streams: 1024, Events: 1023, Notifies: 1024, NotifyShared: true,
		NotifyDevice: true, Padding: 32, DDR: true, LateHostErrors: true, Aligned: true,
		ReduceTypes: []int32{float, float16, int16s}, OpInterval: 68719476,
		OpDefault: 68 * usPerS,
		CubeCores: 2, VectorCores: 2, AICPUs: 4, L2Bytes: 8 << 20},
}

// modern sets the common properties of 950, A3 and A2.
func modern(p Product) Product {
	p.Modern, p.Batch, p.OffsetCopy, p.FillWords, p.Register = true, true, true, true, true
	p.IPCMemory, p.EventFlags, p.Peer, p.Abort, p.WaitTimeout = true, true, true, true, true
	p.NotifyShared, p.NotifyDevice, p.NotifyReset = true, true, true
	p.Streams, p.Events = 1984, 65536
	p.ReduceKinds = true
	if p.ReduceTypes == nil {
		p.ReduceTypes = []int32{int8s, int16s, int32s, float16, float, bf16}
	}
	p.OpInterval, p.OpDefault, p.OpNever = 4295, 1091*usPerS, true
	return p
}

// Default is the default product.
const Default = "A2"

// rcForms are the products that also come in RC form.
var rcForms = []string{"310", "310B", "310P"}

// Find returns the product called name (case does not matter; "" is the default) in the form "EP", "RC" or "", which
// is EP. The error lists the valid names.
func Find(name, form string) (*Product, error) {
	if name == "" {
		name = Default
	}
	for _, p := range products {
		if !strings.EqualFold(p.Name, name) {
			continue
		}
		switch strings.ToUpper(form) {
		case "", "EP":
		case "RC":
			if !slices.Contains(rcForms, p.Name) {
				return nil, fmt.Errorf("product %s has no RC form; 310B, 310P and 310 have one", p.Name)
			}
			p.RC = true
		default:
			return nil, fmt.Errorf("form %q is neither EP nor RC", form)
		}
		return &p, nil
	}
	return nil, fmt.Errorf("no product %q; there are %s", name, strings.Join(Names(), ", "))
}

// Names lists the products.
func Names() []string {
	var n []string
	for _, p := range products {
		n = append(n, p.Name)
	}
	sort.Strings(n)
	return n
}

// RCForms lists the products that also come in RC form.
func RCForms() []string { return slices.Clone(rcForms) }
