//go:build linux

package arena_test

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
)

// Device memory: a closed window, reached through the engine's mapping alone.
func Example() {
	a, err := arena.New(arena.Options{Name: "device", Capacity: 64 << 20, WindowProt: unix.PROT_NONE,
		Budget: arena.NewBudget()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()

	p, err := a.Alloc(1000, arena.AllocOptions{Tag: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(a.Bytes(p, 1000), "summit")
	fmt.Println(a.Room(p), a.Room(p+999), a.Room(p+1000))

	r, ok := a.Find(p + 500)
	fmt.Println(ok, r.Start == p, r.Size, r.Tag)

	fmt.Println(errors.Is(a.Free(p+500), arena.ErrNotAllocated), a.Free(p))
	// Output:
	// 1000 1 0
	// true true 1000 7
	// true <nil>
}
