//go:build linux

package arena

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// fake is a machine whose memory the test sets.
type fake struct {
	limit, free uint64
	reads       int
	err         error
}

func (f *fake) read() (uint64, uint64, error) { f.reads++; return f.limit, f.free, f.err }

func TestBudgetKeepsAReserve(t *testing.T) {
	f := &fake{limit: 100 * gib, free: 10 * gib}
	b := newBudget(f.read)
	if got := b.Available(); got != 8*gib { // 2% of the limit stays
		t.Errorf("available %d", got)
	}
	f.limit = 1 * gib
	if got := b.Available(); got != 10*gib-64*mib {
		t.Errorf("small machine: %d", got)
	}
	f.limit, f.free = 128*mib, 100*mib
	if got := b.Available(); got != 68*mib {
		t.Errorf("tiny machine: %d", got)
	}
	f.free = 10 * mib
	if got := b.Available(); got != 0 {
		t.Errorf("nothing left: %d", got)
	}
	f.err = errors.New("no such file")
	if b.Available() != math.MaxUint64 || b.Limit() != math.MaxUint64 {
		t.Error("unknown must be unlimited")
	}
	if c := b.Open(func() uint64 { return 0 }, nil); !c.Reserve(1 << 50) {
		t.Error("unknown must refuse nothing")
	}
}

func TestBudgetReadsSeldom(t *testing.T) {
	f := &fake{limit: 64 * gib, free: 32 * gib}
	b := newBudget(f.read)
	c := b.Open(func() uint64 { return 0 }, nil)
	for range 1000 {
		if !c.Reserve(64 << 10) {
			t.Fatal("refused")
		}
	}
	if f.reads != 1 {
		t.Errorf("%d reads for 1000 grants", f.reads)
	}
	if c.Reserve(31 * gib) {
		t.Error("more than there is")
	}
}

func TestBudgetSubtractsPromises(t *testing.T) {
	f := &fake{limit: 10 * gib, free: 5 * gib}
	b := newBudget(f.read)
	var touched uint64
	c := b.Open(func() uint64 { return touched }, nil)
	d := b.Open(func() uint64 { return 0 }, nil)
	if !c.Reserve(4 * gib) {
		t.Fatal("refused")
	}
	if d.Reserve(1 * gib) {
		t.Error("promised twice")
	}
	touched, f.free = 4*gib, 1*gib // c uses what it got
	if !d.Reserve(512*mib) || d.Reserve(512*mib) {
		t.Error("after the promise was used")
	}
	c.Release(4 * gib)
	touched, f.free = 0, 5*gib
	if !d.Reserve(4 * gib) {
		t.Error("after release")
	}
	d.Close()
	if !c.Reserve(4 * gib) {
		t.Error("a closed account still counts")
	}
}

func TestBudgetTrimsBeforeItRefuses(t *testing.T) {
	f := &fake{limit: 10 * gib, free: 1 * gib}
	b := newBudget(f.read)
	b.Open(func() uint64 { return 0 }, func() uint64 { f.free = 2 * gib; return gib })
	c := b.Open(func() uint64 { return 0 }, nil)
	if !c.Reserve(3 * gib / 2) {
		t.Error("refused")
	}
}

func TestArenaUnderBudget(t *testing.T) {
	var a, other *Arena
	used := func() (n uint64) {
		for _, x := range []*Arena{a, other} {
			if x != nil {
				n += x.resident()
			}
		}
		return n
	}
	const memory = 256 * mib // 64 MiB of it stay
	b := newBudget(func() (uint64, uint64, error) { return memory, sub(memory, used()), nil })
	o := Options{Capacity: gib, Budget: b, populateMax: 32 * mib, CacheLimit: 64 * mib}
	a, other = open(t, o), open(t, o)

	if _, err := a.Alloc(200*mib, AllocOptions{}); !errors.Is(err, ErrNoMemory) ||
		!strings.Contains(err.Error(), "budget") {
		t.Fatalf("more than the memory: %v", err)
	}
	p := alloc(t, a, 150*mib) // lazy: promised, not there
	if _, err := other.Alloc(60*mib, AllocOptions{}); !errors.Is(err, ErrNoMemory) {
		t.Fatalf("promised memory handed out: %v", err)
	}
	free(t, a, p)
	if a.acct.charged != 0 {
		t.Errorf("%d bytes still charged", a.acct.charged)
	}
	q := alloc(t, other, 30*mib)
	free(t, other, q) // cached there
	if s := other.Stats(); s.Cached != 30*mib || other.acct.charged != 30*mib {
		t.Fatalf("%+v", s)
	}
	alloc(t, a, 180*mib) // only if the other arena gives up its cache
	if s := other.Stats(); s.Cached != 0 || s.Resident != 0 || other.acct.charged != 0 {
		t.Errorf("%+v", s)
	}
	for i := range 100 { // refusals leave nothing behind
		if _, err := other.Alloc(20*mib, AllocOptions{}); !errors.Is(err, ErrNoMemory) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if s := other.Stats(); s.Resident != 0 || s.Live != 0 || other.acct.charged != 0 {
		t.Errorf("%+v", s)
	}
}

// A charge follows the pages through all that can happen to them.
func TestChargesBalance(t *testing.T) {
	b := newBudget(func() (uint64, uint64, error) { return 64 * gib, 64 * gib, nil })
	a := open(t, Options{Capacity: 256 * mib, Budget: b, populateMax: 4 * mib, CacheLimit: 8 * mib})
	check := func(extra uint64) {
		t.Helper()
		if s := a.Stats(); a.acct.charged != s.Resident+extra {
			t.Errorf("charged %d, resident %d, promised %d", a.acct.charged, s.Resident, extra)
		}
	}
	p, q, r := alloc(t, a, 100), alloc(t, a, 100<<10), alloc(t, a, 3*mib)
	check(0)
	l := alloc(t, a, 6*mib)
	check(6 * mib)
	a.Bytes(l, 6*mib)[0] = 1
	check(6*mib - 4096)
	free(t, a, p)
	free(t, a, q)
	check(6*mib - 4096)
	free(t, a, l)
	check(0)
	free(t, a, r)
	free(t, a, alloc(t, a, 40*mib))
	check(0)
	a.Trim()
	check(0)
	if a.acct.charged != 0 {
		t.Errorf("%d bytes charged for nothing", a.acct.charged)
	}
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(root, name)
		testenv.OK(t, os.MkdirAll(filepath.Dir(p), 0o777))
		testenv.OK(t, os.WriteFile(p, []byte(text), 0o666))
	}
}

// nobody else was promised memory.
func nobody(string) uint64 { return 0 }

func TestReadMemory(t *testing.T) {
	const (
		info = "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\nCommitLimit: 4194304 " +
			"kB\nCommitted_AS: 1048576 kB\n"
		v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
		v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n34 31 0:33 / " +
			"/sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	)
	for _, tt := range []struct {
		name        string
		files       map[string]string
		limit, free uint64
	}{
		{"no groups", map[string]string{}, 16 * gib, 8 * gib},
		{"strict overcommit", map[string]string{"proc/sys/vm/overcommit_memory": "2\n"}, 16 * gib, 3 * gib},
		{"version 2, own limit", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/a/b/memory.max": "4294967296\n", "sys/fs/cgroup/a/b/memory.current": "3221225472\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 5\ninactive_file 1073741824\n",
		}, 4 * gib, 2 * gib},
		{"version 2, limit of an ancestor", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "1\n",
			"sys/fs/cgroup/a/memory.max": "2147483648\n", "sys/fs/cgroup/a/memory.current": "1073741824\n",
		}, 2 * gib, 1 * gib},
		{"version 2, the container sees its group as the root", map[string]string{
			"proc/self/cgroup": "0::/docker/xyz\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "0\n",
		}, 1 * gib, 1 * gib},
		{"version 2, mounted from the group", map[string]string{
			"proc/self/cgroup": "0::/docker/xyz/sub\n", "proc/self/mountinfo": strings.Replace(v2, " / ",
				" /docker/xyz ", 1),
			"sys/fs/cgroup/sub/memory.max": "1073741824\n", "sys/fs/cgroup/sub/memory.current": "1000000000\n",
		}, 1 * gib, 1*gib - 1000000000},
		{"version 1", map[string]string{
			"proc/self/cgroup": "4:memory:/p/q\n2:cpu:/\n", "proc/self/mountinfo": v1,
			"sys/fs/cgroup/memory/p/q/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/p/q/memory.usage_in_bytes": "5\n",
			"sys/fs/cgroup/memory/p/memory.limit_in_bytes":   "2147483648\n",
			"sys/fs/cgroup/memory/p/memory.usage_in_bytes":   "1073741824\n",
			"sys/fs/cgroup/memory/p/memory.stat":             "inactive_file 1\ntotal_inactive_file 536870912\n",
		}, 2 * gib, 3 * gib / 2},
		{"over the limit", map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "1073741825\n",
		}, 1 * gib, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, map[string]string{"proc/meminfo": info})
			write(t, root, tt.files)
			limit, free, err := readMemory(root, nobody)
			if err != nil || limit != tt.limit || free != tt.free {
				t.Errorf("limit %d, free %d, %v; want %d, %d", limit, free, err, tt.limit, tt.free)
			}
		})
	}
	if _, _, err := readMemory(t.TempDir(), nobody); err == nil {
		t.Error("no meminfo, no error")
	}
	root := t.TempDir()
	write(t, root, map[string]string{"proc/meminfo": "nonsense\n"})
	if _, _, err := readMemory(root, nobody); err == nil {
		t.Error("empty meminfo, no error")
	}
}

func TestThisMachine(t *testing.T) {
	b := NewBudget()
	if l, f := b.Limit(), b.Available(); l < 64*mib || f == 0 || f > l {
		t.Errorf("limit %d, available %d", l, f)
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		want   uint64
		limits []uint64
		fit    uint64
	}{
		{64 * gib, nil, 64 * gib},
		{64 * gib, []uint64{24 * gib, 23*gib + 5}, 23 * gib},
		{64 * gib, []uint64{math.MaxUint64}, 64 * gib},
		{64 * gib, []uint64{3 * mib}, 64 * mib},
		{64*mib + 3*mib, nil, 66 * mib},
		{8 * mib, []uint64{1}, 8 * mib},
		{1, nil, 2 * mib},
		{1 << 60, nil, MaxCapacity},
	} {
		if got := Fit(tt.want, tt.limits...); got != tt.fit {
			t.Errorf("Fit(%d, %v) = %d, want %d", tt.want, tt.limits, got, tt.fit)
		}
	}
}

// A promise needs no reading if the last one was a moment ago and left enough.
func TestBudgetPromise(t *testing.T) {
	reads, free := 0, uint64(64*gib)
	b := newBudget(func() (uint64, uint64, error) { reads++; return 64 * gib, free, nil })
	c := b.Open(func() uint64 { return 0 }, nil)
	promise := func(n uint64, want bool, more int) {
		t.Helper()
		before := reads
		if got := c.promise(n); got != want || reads-before != more {
			t.Errorf("%d bytes: %v after %d readings, want %v after %d", n, got, reads-before, want, more)
		}
	}
	promise(gib, true, 1)
	promise(8*gib, true, 0)
	promise(8*gib, true, 0)
	promise(40*gib, true, 1) // more than half
	promise(8*gib, false, 1)
	if c.charged != 57*gib {
		t.Errorf("%d bytes are accounted", c.charged)
	}
	c.Release(57 * gib)
	promise(gib, true, 0)
	b.mu.Lock()
	b.readAt = b.readAt.Add(-time.Hour)
	b.mu.Unlock()
	free = 0
	promise(2*gib, false, 1)
}
