package kernel_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"ropeway"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/kernel"
)

const configured = `
#include "ropeway/kernel.h"
uint32_t factor = 3;
void endless(void) { for (;;) ; }
void times(uint32_t *p, uint64_t by) { *p *= factor * by; }
void meet(uint32_t *p) {
	__atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(p, __ATOMIC_SEQ_CST) < ropeway_block_num()) ;
}
__attribute__((section(".ascend.meta.count"), used)) static const unsigned char meta[] = {
	16,0,12,0, 1,0,0,0, 8,0,0,0,0,0,0,0,
	17,0,36,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 8,0,0,0, 8,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
	12,0,4,0, 3,0,0,0 };
void count(uint32_t *p) { __atomic_fetch_add(p, 1 + ropeway_thread_idx(1), __ATOMIC_SEQ_CST); }
`

// configure is a device of a product, with the kernels above and a word for them.
func configure(t *testing.T, p ropeway.Product) (*kernel.Module, *ropeway.Stream, *ropeway.Buffer) {
	t.Helper()
	kerneltest.Support(t)
	rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithProduct(p, ropeway.EP))
	check(t, err)
	t.Cleanup(func() { rt.Close() })
	dev, err := rt.Device(0)
	check(t, err)
	s, err := dev.NewStream()
	check(t, err)
	m, err := kernel.LoadData(dev, kerneltest.Compile(t, configured))
	check(t, err)
	word, err := dev.Alloc(4)
	check(t, err)
	return m, s, word
}

// number is the word of b, after what was queued.
func number(t *testing.T, s *ropeway.Stream, b *ropeway.Buffer) uint32 {
	t.Helper()
	check(t, s.Synchronize(context.Background()))
	var bytes [4]byte
	_, err := b.ReadAt(bytes[:], 0)
	check(t, err)
	return binary.LittleEndian.Uint32(bytes[:])
}

func find(t *testing.T, m *kernel.Module, name string) *kernel.Kernel {
	t.Helper()
	k, err := m.Kernel(name)
	check(t, err)
	return k
}

// TestLaunchWith: a kernel is ended when its time is up, blocks that wait for each other run at once, and a SIMT kernel
// has a grid.
func TestLaunchWith(t *testing.T) {
	m, s, word := configure(t, ropeway.ProductA2)
	check(t, find(t, m, "endless").LaunchWith(s, kernel.Config{Blocks: 1, Timeout: 20 * time.Millisecond}))
	if err := s.Synchronize(context.Background()); !errors.Is(err, ropeway.ErrRTAicoreTimeout) {
		t.Errorf("a kernel without an end: %v", err)
	}
	_, err := word.WriteAt(make([]byte, 4), 0)
	check(t, err)
	check(t, find(t, m, "meet").LaunchWith(s, kernel.Config{Blocks: 20, AtOnce: true}, word))
	if got := number(t, s, word); got != 20 {
		t.Errorf("%d blocks met, want 20", got)
	}

	m, s, word = configure(t, ropeway.Product950)
	_, err = word.WriteAt(make([]byte, 4), 0)
	check(t, err)
	simt := kernel.Config{Grid: [3]int{2, 3, 1}, Threads: [3]int{4, 2, 1}, Shared: 1024}
	check(t, find(t, m, "count").LaunchWith(s, simt, word))
	if got := number(t, s, word); got != 2*3*4*(1+2) {
		t.Errorf("%d, want %d of 48 threads", got, 2*3*4*(1+2))
	}
}

// TestLaunchWithWrong: what cannot be passed on is refused, with the name of the parameter.
func TestLaunchWithWrong(t *testing.T) {
	m, s, _ := configure(t, ropeway.ProductA2)
	k := find(t, m, "endless")
	for arg, c := range map[string]kernel.Config{
		"numBlocks":   {},
		"gridDim":     {Blocks: 1, Grid: [3]int{1, 1, 1}},
		"blockDim":    {Grid: [3]int{1, 1, 1}, Threads: [3]int{-1, 1, 1}},
		"dynUbufSize": {Blocks: 1, Shared: 1 << 33},
		"cfg":         {Blocks: 1, Timeout: 1500 * time.Nanosecond},
	} {
		var e *ropeway.Error
		if err := k.LaunchWith(s, c); !errors.As(err, &e) || e.Arg != arg || e.Code != ropeway.ErrRTParamInvalid {
			t.Errorf("%+v: %v, want 107000 for %s", c, err, arg)
		}
	}
}

// TestVariable: a variable of a binary is memory that copies use and kernels read.
func TestVariable(t *testing.T) {
	m, s, word := configure(t, ropeway.ProductA2)
	factor, err := m.Variable("factor")
	check(t, err)
	if got := number(t, s, factor); got != 3 || factor.Len() != 4 || !factor.OnDevice() {
		t.Fatalf("the variable has %d bytes and is %d, want 4 and 3", factor.Len(), got)
	}
	_, err = factor.WriteAt([]byte{5, 0, 0, 0}, 0)
	check(t, err)
	_, err = word.WriteAt([]byte{7, 0, 0, 0}, 0)
	check(t, err)
	check(t, find(t, m, "times").Launch(s, 1, word, 2))
	if got := number(t, s, word); got != 70 {
		t.Errorf("%d, want 70", got)
	}
	check(t, factor.Close())
	if _, err := m.Variable("none"); err == nil {
		t.Error("a variable that is not there is found")
	}
	check(t, m.Close())
}
