package cuda

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"ropeway/internal/driver"
)

// TestOtherProcess proves that memory is shared with another process without a copy, as a file and as a handle, for the
// second of two devices too, which may be on one GPU. Without a GPU it runs on the imitation.
func TestOtherProcess(t *testing.T) {
	b := newBedOf(t, openTwo(t), nil)
	if note := os.Getenv("ROPEWAY_TEST_NOTE"); note != "" {
		b.importer(note)
		return
	}
	const n = 2 * extent
	at, m := b.mapped(1, n)
	bySize := map[uintptr]*driver.Shared{}
	var err error
	bySize[at], err = b.d.Share(m)
	b.ok(err)
	for i, size := range []uint64{1000, 64 << 10, 3<<20 + 77} {
		p := b.alloc(i%2, size)
		bySize[p], err = b.d.ShareAt(p)
		b.ok(err)
	}
	self, err := os.Executable()
	b.ok(err)
	for p, sh := range bySize {
		b.write(p, pattern(sh.Size, 1))
		cmd := exec.Command(self, "-test.run=^TestOtherProcess$", "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprintf("ROPEWAY_TEST_NOTE=%d %d %s", sh.Device, sh.Size,
			hex.EncodeToString(append([]byte{0}, sh.Note...))))
		if sh.File != nil {
			cmd.ExtraFiles = []*os.File{sh.File}
		}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Fatalf("%d bytes: %v\n%s", sh.Size, err, out)
		}
		if !bytes.Equal(b.read(p, int(sh.Size)), pattern(sh.Size, 2)) {
			t.Errorf("%d bytes: what the other process wrote is not there", sh.Size)
		}
		if sh.File != nil {
			b.ok(sh.File.Close())
		}
	}
	b.ok(b.d.Unmap(at))
	b.ok(m.Free())
}

func pattern(n uint64, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)*seed
	}
	return b
}

// importer is the other process: it checks the first pattern in two imports, and writes the second.
func (b *bed) importer(text string) {
	b.Helper()
	sh := &driver.Shared{}
	var note string
	if _, err := fmt.Sscanf(text, "%d %d %s", &sh.Device, &sh.Size, &note); err != nil {
		b.Fatal(err)
	}
	raw, err := hex.DecodeString(note)
	b.ok(err)
	if sh.Note = raw[1:]; len(sh.Note) == 0 {
		sh.File = os.NewFile(3, "shared")
		defer sh.File.Close()
	}
	var ends []func()
	for range 2 {
		m, err := b.d.Import(sh)
		b.ok(err)
		at, err := b.d.Reserve(4*extent, 0)
		b.ok(err)
		b.ok(b.d.Map(at, m))
		if !bytes.Equal(b.read(at, int(sh.Size)), pattern(sh.Size, 1)) {
			b.Fatal("what was shared is not there")
		}
		ends = append(ends, func() {
			b.ok(b.d.Unmap(at))
			b.ok(m.Free())
			b.ok(b.d.Release(at))
		})
		if len(ends) == 2 {
			b.write(at, pattern(sh.Size, 2))
		}
	}
	for _, end := range ends {
		end()
	}
	bad := *sh
	bad.Size += extent
	_, err = b.d.Import(&bad)
	b.refused("more than there is", err, driver.ErrFault)
}
