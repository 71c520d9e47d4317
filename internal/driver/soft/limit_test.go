package soft

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// TestSmallAddressSpace: if ulimit -v leaves little, devices are small, one warning says so, and all of them work.
func TestSmallAddressSpace(t *testing.T) {
	statm, err := os.ReadFile("/proc/self/statm")
	testenv.OK(t, err)
	pages, err := strconv.ParseUint(strings.Fields(string(statm))[0], 10, 64)
	testenv.OK(t, err)
	var old unix.Rlimit
	testenv.OK(t, unix.Getrlimit(unix.RLIMIT_AS, &old))
	limit := old
	limit.Cur = pages*4096 + 4<<30
	testenv.OK(t, unix.Setrlimit(unix.RLIMIT_AS, &limit))
	defer unix.Setrlimit(unix.RLIMIT_AS, &old)

	var said []string
	d, err := New(Options{Devices: 8, Warn: func(text string) { said = append(said, text) }})
	testenv.OK(t, err)
	defer d.Close()
	host, err := d.AllocHost(4096)
	testenv.OK(t, err)
	for i := range d.Devices() {
		dev, err := d.Open(i)
		if err != nil {
			t.Fatalf("device %d: %v", i, err)
		}
		defer dev.Close()
		p, err := dev.Alloc(4096, driver.PageHugeFirst)
		testenv.OK(t, err)
		testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: p, Src: host, N: 4096}))
	}
	if len(said) != 1 || !strings.Contains(said[0], "MiB") {
		t.Errorf("the warnings are %q", said)
	}
	if _, err := New(Options{Devices: 1000}); err == nil || !strings.Contains(err.Error(), "ulimit -v") {
		t.Errorf("1000 devices in 4 GiB: %v", err)
	}
}
