package symbol

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"ropeway/internal/testenv"
)

// ask writes content to a file and asks for some addresses in it. Nothing may panic, and there is always an answer.
func ask(t testing.TB, path string, content []byte, offsets []uint64) {
	t.Helper()
	testenv.OK(t, os.WriteFile(path, content, 0o666))
	table := pretend(t, path)
	for _, offset := range offsets {
		if len(table.At(uintptr(base+offset))) == 0 {
			t.Errorf("no answer for %#x", offset)
		}
	}
}

// A file with any bytes changed, or cut short, is handled somehow.
func TestDamagedFiles(t *testing.T) {
	for _, flags := range [][]string{{"-gdwarf-4", "-O2"}, {"-gdwarf-5", "-O2"}, {"-gdwarf-5", "-O2", "-gz"}, {"-O2"}} {
		path := build(t, "small.c", flags...)
		whole, err := os.ReadFile(path)
		testenv.OK(t, err)
		offsets, _ := code(t, path)
		offsets = []uint64{offsets[0], offsets[len(offsets)/2], offsets[len(offsets)-1]}
		damaged := filepath.Join(t.TempDir(), "libdamaged.so")
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 300 {
			content := append([]byte(nil), whole...)
			switch {
			case round%10 == 0:
				content = content[:random.IntN(len(content))]
			case round%3 == 0: // the headers
				for range 1 + random.IntN(4) {
					content[random.IntN(64+56*8)] = byte(random.Uint32())
				}
			default:
				for range 1 + random.IntN(200) {
					content[random.IntN(len(content))] = byte(random.Uint32())
				}
			}
			ask(t, damaged, content, offsets)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, flags := range [][]string{{"-gdwarf-4", "-O2"}, {"-gdwarf-5", "-O2", "-gz"}} {
		path := build(f, "small.c", flags...)
		whole, err := os.ReadFile(path)
		testenv.OK(f, err)
		offset, _ := find(f, path, "entry")
		f.Add(whole, offset)
	}
	f.Fuzz(func(t *testing.T, content []byte, offset uint64) {
		ask(t, filepath.Join(t.TempDir(), "libdamaged.so"), content, []uint64{offset % (1 << 30)})
	})
}
