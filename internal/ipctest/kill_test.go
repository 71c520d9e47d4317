//go:build linux

package ipctest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// rounds is how many rounds to go: IPC_ROUNDS, as "make soak-ipc" sets it, or 30.
func rounds(t *testing.T) int {
	text := os.Getenv("IPC_ROUNDS")
	switch n, err := strconv.Atoi(text); {
	case text == "" && testing.Short():
		return 6
	case text == "":
		return 30
	case err != nil || n <= 0:
		t.Fatalf("IPC_ROUNDS=%q is no number of rounds", text)
		return 0
	default:
		return n
	}
}

// TestKilledAtAnyMoment runs rounds of two and four processes that share buffers with each other. Some are killed while
// they export, import, write or close. Those that survive go on, have what they wrote, and release everything;
// afterwards nothing is left.
func TestKilledAtAnyMoment(t *testing.T) {
	seed, err := testenv.Seed()
	testenv.OK(t, err)
	n := rounds(t)
	var done [kinds]int
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for i := range n {
		if i%100 == 99 {
			t.Logf("%d rounds", i+1)
		}
		round(t, seed+uint64(i), &done)
		if t.Failed() {
			t.Fatalf("round %d; %s=%d IPC_ROUNDS=1 does it again", i+1, testenv.SeedVariable, seed+uint64(i))
		}
	}
	t.Logf("done of each kind: %v", done)
	if slices.Contains(done[:], 0) {
		t.Error("one kind of thing was never done")
	}
	if left := soon("", func() string { return strings.Join(leftovers(t, temp), "\n") }); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

func round(t *testing.T, seed uint64, done *[kinds]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	workers := make([]*worker, 2+2*r.IntN(2))
	clean := make([]string, len(workers)) // what each has when it has nothing
	for i := range workers {
		workers[i] = start(t)
	}
	var offers, keys []string
	for i, w := range workers {
		clean[i] = w.Does("census")
		offers = append(offers, w.Does("offer"))
		key, _, _ := strings.Cut(offers[i], ",")
		keys = append(keys, key)
	}
	long := 10 + r.IntN(50) // milliseconds
	for i, w := range workers {
		w.Send("storm %d %d %d %s", seed, i, long, strings.Join(offers, " "))
	}
	// One dies for sure, others perhaps, at any moment of the storm or just after it; one survives.
	order := r.Perm(len(workers))
	for _, i := range order[:1+r.IntN(len(workers)-1)] {
		time.Sleep(time.Duration(r.IntN(long*1000)) * time.Microsecond)
		workers[i].Kill()
		workers[i] = nil
	}
	for i, w := range workers {
		if w == nil {
			continue
		}
		s, ok := w.Reply()
		words := strings.Fields(s)
		if !ok || len(words) != 1+kinds || words[0] != "ok" {
			t.Fatalf("seed %d: process %d of %d: %q", seed, i, len(workers), s)
		}
		for kind, n := range words[1:] {
			done[kind] += int(number(n))
		}
	}
	for i, w := range workers { // the storm is over everywhere
		if w == nil {
			continue
		}
		w.Does("fill a 0 %d 9", buffer)
		for j, o := range workers { // survivors still reach each other
			if o != nil {
				o.Does("import x%d %s 0", i, keys[i])
				o.Does("check x%d %d 10 9", i, j*lane)
				o.Does("close %s", keys[i])
			}
		}
		w.Does("settle")
	}
	for i, w := range workers {
		if w == nil {
			continue
		}
		if got := soon(clean[i], func() string { return w.Does("census") }); got != clean[i] {
			t.Errorf("seed %d: process %d has %s, had %s", seed, i, got, clean[i])
		}
		w.End()
	}
	for _, key := range keys {
		if listens(t, key) {
			t.Errorf("seed %d: the socket of %s is still there", seed, key[:9])
		}
	}
}

// soon asks until the reply is as wanted, or for a while: a file may be closed by a goroutine that has not had its
// turn, and other programs have files in /dev/shm for a moment.
func soon(want string, ask func() string) (got string) {
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if got = ask(); got == want || time.Now().After(until) {
			return got
		}
	}
}

// listens reports whether a process listens for a key.
func listens(t testing.TB, key string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/net/unix")
	testenv.OK(t, err)
	return bytes.Contains(text, []byte("@ropeway-"+key[3:8]+"\n"))
}

// leftovers lists what sharing could leave in file systems: in /dev/shm by name, and in the temporary directory that
// the workers have.
func leftovers(t testing.TB, temp string) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"/dev/shm", temp} {
		list, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, e := range list {
			if dir == temp || strings.Contains(strings.ToLower(e.Name()), "ropeway") {
				all = append(all, filepath.Join(dir, e.Name()))
			}
		}
	}
	return all
}
