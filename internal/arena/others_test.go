//go:build linux

package arena

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"ropeway/internal/testenv"
)

// container is files of a machine of 16 GiB with a control group that is limited to 1 GiB.
func container(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	write(t, root, map[string]string{
		"proc/meminfo":             "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n",
		"proc/self/cgroup":         "0::/box\n",
		"proc/self/mountinfo":      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "0\n",
		"sys/fs/cgroup/box/memory.max": "1073741824\n", "sys/fs/cgroup/box/memory.current": "0\n",
	})
	return root
}

// uses says how much memory the processes of the container use.
func uses(t *testing.T, root string, n uint64) {
	write(t, root, map[string]string{"sys/fs/cgroup/box/memory.current": strconv.FormatUint(n, 10) + "\n"})
}

// member is a process of the container, as far as a budget knows.
type member struct {
	*Account
	resident atomic.Uint64
}

func join(root string) *member {
	m := new(member)
	m.Account = newBudgetOf(root).Open(m.resident.Load, nil)
	return m
}

// refresh is what happens after a while.
func (m *member) refresh() { m.b.tellAgain() }

// TestOthersPromises proves that what one process was granted and has not touched is not granted to another of its
// group, and that it counts once: as promised until it is touched, then as used; and no more when it was freed.
func TestOthersPromises(t *testing.T) {
	root := container(t)
	a, b := join(root), join(root)
	defer a.Close()
	defer b.Close()
	if !a.Reserve(600 * mib) {
		t.Fatal("refused")
	}
	if b.Reserve(600 * mib) {
		t.Fatal("the same memory was granted twice")
	}
	if !b.Reserve(200 * mib) {
		t.Fatal("what is left was refused")
	}
	a.refresh() // there is no credit any more
	b.refresh()
	left := uint64(1024 - 64 - 600 - 200) // some stays
	for _, m := range []*member{a, b} {
		if n := m.b.Available(); n != left*mib {
			t.Errorf("%d MiB are available, want %d", n/mib, left)
		}
	}
	uses(t, root, 600*mib) // a touches all of it
	a.resident.Store(600 * mib)
	if n := b.b.Available(); n > left*mib {
		t.Errorf("%d MiB are available as memory is touched, want no more than %d", n/mib, left)
	}
	a.refresh()
	if n := b.b.Available(); n != left*mib {
		t.Errorf("%d MiB are available after memory was touched, want %d", n/mib, left)
	}
	uses(t, root, 0)
	a.resident.Store(0)
	a.Release(600 * mib)
	a.refresh()
	if n := b.b.Available(); n != (left+600)*mib {
		t.Errorf("%d MiB are available after it was freed, want %d", n/mib, left+600)
	}
}

// TestOthersEnd proves that what a process had on record goes with its account, and that a third one has not lost sight
// of the second.
func TestOthersEnd(t *testing.T) {
	root := container(t)
	a, b, c := join(root), join(root), join(root)
	defer b.Close()
	defer c.Close()
	for _, m := range []*member{a, b, c} {
		if !m.Reserve(200 * mib) {
			t.Fatal("refused")
		}
		m.refresh()
	}
	before := c.b.Available()
	a.Close()
	if n := c.b.Available(); n != before+200*mib {
		t.Errorf("%d MiB are available, want %d", n/mib, before/mib+200)
	}
	if a.b.ledgers != nil || a.b.pending != nil {
		t.Error("a budget without accounts keeps files or a timer")
	}
}

// TestOthersAtOnce proves that of processes that ask for the same memory at the same moment one gets it.
func TestOthersAtOnce(t *testing.T) {
	root := container(t)
	for range 50 {
		var granted atomic.Int32
		var wg sync.WaitGroup
		members := []*member{join(root), join(root), join(root)}
		for _, m := range members {
			wg.Go(func() {
				if m.Reserve(600 * mib) {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		for _, m := range members {
			m.Close()
		}
		if n := granted.Load(); n != 1 {
			t.Fatalf("%d were granted 600 MiB of 1 GiB", n)
		}
	}
}

// TestOthersKilled proves that nothing stays of a process that is killed.
func TestOthersKilled(t *testing.T) {
	if root := os.Getenv("ARENA_MEMBER"); root != "" { // the other process
		fmt.Println(join(root).Reserve(600 * mib))
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // it waits to be killed
		return
	}
	root := container(t)
	m := join(root)
	defer m.Close()
	before := m.b.Available()
	c := exec.Command("/proc/self/exe", "-test.run=^TestOthersKilled$")
	c.Env = append(os.Environ(), "ARENA_MEMBER="+root)
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	testenv.OK(t, err)
	said, _ := bufio.NewReader(out).ReadString('\n')
	if said != "true\n" || m.Reserve(600*mib) {
		t.Errorf("another process said %q, and what it has was granted again", said)
	}
	c.Process.Kill()
	c.Wait() //nolint:errcheck // it was killed
	if n := m.b.Available(); n != before {
		t.Errorf("%d MiB are available after it was killed, %d were before", n/mib, before/mib)
	}
	if !m.Reserve(600 * mib) {
		t.Error("its memory cannot be had")
	}
}

// TestLedgerOtherFile proves that a ledger leaves a file alone that has got the number of its own.
func TestLedgerOtherFile(t *testing.T) {
	root := container(t)
	m, o := join(root), join(root)
	defer m.Close()
	defer o.Close()
	if !m.Reserve(100*mib) || !o.Reserve(100*mib) {
		t.Fatal("refused")
	}
	var l *ledger
	for _, l = range m.b.ledgers {
	}
	was := l.is
	l.is.Ino++ // as if it were another
	l.put(500 * mib)
	if n := l.others(); n != 0 {
		t.Errorf("%d bytes were read from another file", n)
	}
	l.lock()
	if l.locked || l.pages == 500*mib/pageSize {
		t.Error("another file was locked")
	}
	l.is = was
}
