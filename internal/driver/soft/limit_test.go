package soft

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
)

// TestSmallAddressSpace: if ulimit -v leaves little, devices are small, one warning says so, and all of them work.
func TestSmallAddressSpace(t *testing.T) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(statm))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = pages*4096 + 4<<30
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_AS, &old)

	var said []string
	d, err := New(Options{Devices: 8, Warn: func(text string) { said = append(said, text) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	host, err := d.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Devices() {
		dev, err := d.Open(i)
		if err != nil {
			t.Fatalf("device %d: %v", i, err)
		}
		defer dev.Close()
		p, err := dev.Alloc(4096, driver.PageHugeFirst)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: p, Src: host, N: 4096}); err != nil {
			t.Fatal(err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "MiB") {
		t.Errorf("the warnings are %q", said)
	}
	if _, err := New(Options{Devices: 1000}); err == nil || !strings.Contains(err.Error(), "ulimit -v") {
		t.Errorf("1000 devices in 4 GiB: %v", err)
	}
}
