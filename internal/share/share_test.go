//go:build linux

package share

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// socketName is where a process listens that is in no pod.
func socketName(tag uint32) *net.UnixAddr { return (&Broker{}).socketName(tag) }

// Import imports without exports of its own.
func Import(k Key, kind Kind) (Item, error) { return (&Broker{}).Import(k, kind) }

// file is a memfd with text in it.
func file(t testing.TB, text string) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("share-test", unix.MFD_CLOEXEC)
	testenv.OK(t, err)
	f := os.NewFile(uintptr(fd), "share-test")
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f
}

// content is what is in a file, from its start.
func content(t testing.TB, f *os.File) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	testenv.OK(t, err)
	return string(b)
}

// broker is a broker that is closed with the test, and leaves nothing.
func broker(t testing.TB) *Broker {
	t.Helper()
	before := openFiles(t)
	b := &Broker{}
	t.Cleanup(func() {
		b.Close()
		if after := openFiles(t); after > before {
			t.Errorf("%d files are open, %d were", after, before)
		}
	})
	return b
}

// openFiles counts memfds, sockets and pidfds.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testenv.OK(t, err)
	n := 0
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if strings.Contains(to, "share-test") || strings.HasPrefix(to, "socket:") || strings.Contains(to, "pidfd") {
			n++
		}
	}
	return n
}

func mustExport(t testing.TB, b *Broker, text string, o Options) Key {
	t.Helper()
	k, err := b.Export(Item{Kind: Allocation, Note: []byte("note of " + text), Files: []*os.File{file(t, text)}}, o)
	testenv.OK(t, err)
	return k
}

func wantError(t testing.TB, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestImportGivesFilesAndNote(t *testing.T) {
	b := broker(t)
	k := mustExport(t, b, "hello", Options{Open: true})
	for range 3 {
		it, err := b.Import(k, Allocation)
		testenv.OK(t, err)
		if string(it.Note) != "note of hello" || len(it.Files) != 1 || content(t, it.Files[0]) != "hello" {
			t.Errorf("got %q and %d files", it.Note, len(it.Files))
		}
		if flags, err := unix.FcntlInt(it.Files[0].Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the file would survive exec (%v)", err)
		}
		it.Close()
	}
}

func TestManyFilesAndNone(t *testing.T) {
	b := broker(t)
	for n := range MaxFiles + 1 {
		it := Item{Kind: Event, Note: bytes.Repeat([]byte{7}, MaxNote)}
		for i := range n {
			it.Files = append(it.Files, file(t, fmt.Sprint(i)))
		}
		k, err := b.Export(it, Options{Open: true})
		testenv.OK(t, err)
		got, err := b.Import(k, Event)
		if err != nil || len(got.Files) != n || len(got.Note) != MaxNote {
			t.Fatalf("%d files: got %d, a note of %d bytes, %v", n, len(got.Files), len(got.Note), err)
		}
		for i, f := range got.Files {
			if content(t, f) != fmt.Sprint(i) {
				t.Errorf("file %d is another one", i)
			}
		}
		got.Close()
	}
	if _, err := b.Export(Item{Kind: Event, Note: make([]byte, MaxNote+1), Files: []*os.File{file(t, "")}},
		Options{}); err == nil {
		t.Error("a note that is too long was taken")
	}
}

func TestRefusals(t *testing.T) {
	b := broker(t)
	k := mustExport(t, b, "secret", Options{})
	other := mustExport(t, b, "keeps the server open", Options{})

	_, err := b.Import(k, Allocation)
	wantError(t, err, ErrNotAllowed, fmt.Sprint("process ", os.Getpid()))
	_, err = b.Import(k, Notify)
	wantError(t, err, ErrUnknown)
	guess := k
	guess.secret[23] ^= 1
	_, err = b.Import(guess, Allocation)
	wantError(t, err, ErrUnknown)
	wantError(t, b.Allow(guess, []int32{1}), ErrUnknown)
	wantError(t, b.Open(guess), ErrUnknown)
	if b.Withdraw(guess) || b.Owns(guess) || !b.Owns(k) {
		t.Error("a guessed key was taken for one that is exported")
	}

	wantError(t, b.Allow(k, []int32{int32(os.Getpid()), 1 << 30}), ErrNoProcess)
	_, err = b.Import(k, Allocation)
	wantError(t, err, ErrNotAllowed) // one name was wrong, so none was taken
	for range 2 {
		testenv.OK(t, b.Allow(k, []int32{1, int32(os.Getpid())}))
	}
	it, err := b.Import(k, Allocation)
	testenv.OK(t, err)
	it.Close()
	_, err = b.Import(other, Allocation)
	wantError(t, err, ErrNotAllowed)
	testenv.OK(t, b.Open(other))
	if it, err = b.Import(other, Allocation); err != nil {
		t.Fatal(err)
	}
	it.Close()

	if !b.Withdraw(k) || b.Withdraw(k) {
		t.Error("a key is withdrawn once")
	}
	_, err = b.Import(k, Allocation) // replayed, while the process exports something else
	wantError(t, err, ErrUnknown)
	b.Withdraw(other)
	_, err = b.Import(k, Allocation)
	wantError(t, err, ErrGone)
	b.Close()
	if _, err = b.Export(Item{Kind: Event}, Options{}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v after Close", err)
	}
}

func TestDoorGoesWithTheLastExport(t *testing.T) {
	b := broker(t)
	k, l := mustExport(t, b, "a", Options{}), mustExport(t, b, "b", Options{})
	if k.tag != l.tag {
		t.Error("a process listens at two sockets")
	}
	listens := func() bool {
		text, err := os.ReadFile("/proc/net/unix")
		testenv.OK(t, err)
		return bytes.Contains(text, []byte(socketName(k.tag).Name+"\n"))
	}
	b.Withdraw(k)
	if !listens() {
		t.Error("the server was closed too early")
	}
	b.Withdraw(l)
	if listens() {
		t.Error("the server is open with nothing exported")
	}
}

func TestKeyForms(t *testing.T) {
	for i := range uint32(200) {
		k := newKey(i*5003%(1<<tagBits), false)
		if got, ok := ParseText(k.Text()); !ok || got != k || len(k.Text()) != textLen {
			t.Fatalf("%q came back as %v", k.Text(), got)
		}
		for _, n := range []int{64, 128} {
			block := make([]byte, n)
			k.Block(block)
			if got, ok := FromBlock(block); !ok || got != k {
				t.Fatalf("a block of %d bytes came back as %v", n, got)
			}
			block[i%uint32(blockLen)] ^= 1
			if _, ok := FromBlock(block); ok {
				t.Error("a changed block was taken")
			}
		}
		if s := newKey(i+1, true); FromNumber(s.Number()) != s || s.Number() == 0 {
			t.Fatalf("%#x came back as %v", s.Number(), FromNumber(s.Number()))
		}
		if strings.Contains(k.String(), k.Text()[10:]) {
			t.Error("the secret is in what goes into logs")
		}
	}
	good := newKey(0xabcde, false).Text()
	for _, bad := range []string{"", "rw-", good[1:], good + "0", strings.ToUpper(good), strings.Replace(good, "-", "_",
		1), good[:9] + "+" + good[10:], good[:20] + "g" + good[21:]} {
		if _, ok := ParseText(bad); ok {
			t.Errorf("%q was taken for a key", bad)
		}
	}
	if _, ok := FromBlock(make([]byte, 8)); ok {
		t.Error("a short block was taken")
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[Key]bool{}
	for i := range 1000 {
		k := newKey(1, i%2 == 0)
		if seen[k] {
			t.Fatal("a key was drawn twice")
		}
		seen[k] = true
	}
}

// Peers that connect and say nothing, or ask and do not listen, hold nobody up.
func TestSlowPeers(t *testing.T) {
	b := broker(t)
	k := mustExport(t, b, "for those who are quick", Options{Open: true})
	for i := range 3 * maxPeers {
		c, err := net.DialUnix("unixpacket", nil, socketName(k.tag))
		testenv.OK(t, err)
		defer c.Close()
		if i%2 == 0 {
			q := ask(newKey(k.tag, false), Allocation)
			c.Write(q.encode())
		}
		if i%16 == 0 {
			it, err := b.Import(k, Allocation)
			if err != nil {
				t.Fatalf("after %d slow peers: %v", i, err)
			}
			it.Close()
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	b := broker(t)
	stay := mustExport(t, b, "stay", Options{Open: true})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 25 {
				k, err := b.Export(Item{Kind: Allocation, Files: []*os.File{file(t, "x")}}, Options{Short: i%2 == 0})
				if err != nil {
					t.Error(err)
					return
				}
				if err := b.Allow(k, []int32{int32(os.Getpid()), 1}); err != nil {
					t.Error(err)
				}
				for _, key := range []Key{k, stay} {
					it, err := b.Import(key, Allocation)
					if err != nil {
						t.Error(err)
					}
					it.Close()
				}
				b.Withdraw(k)
			}
		})
	}
	wg.Wait()
	if b.Count() != 1 {
		t.Errorf("%d exports are left, want 1", b.Count())
	}
}

// An export that is withdrawn while it is imported gives all or nothing.
func TestWithdrawnMeanwhile(t *testing.T) {
	b := broker(t)
	mustExport(t, b, "keeps the server open", Options{})
	for range 50 {
		k := mustExport(t, b, "now or never", Options{Open: true})
		done := make(chan error)
		go func() {
			it, err := b.Import(k, Allocation)
			if err == nil && content(t, it.Files[0]) != "now or never" {
				err = errors.New("half of it came")
			}
			it.Close()
			done <- err
		}()
		b.Withdraw(k)
		if err := <-done; err != nil && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
	}
}

func BenchmarkImport(b *testing.B) {
	br := broker(b)
	k := mustExport(b, br, "quick", Options{Open: true})
	for b.Loop() {
		it, err := br.Import(k, Allocation)
		if err != nil {
			b.Fatal(err)
		}
		it.Close()
	}
}

// TestRealm: processes of one server find each other, those of another do not; keys with a place keep it.
func TestRealm(t *testing.T) {
	var one, other, here Broker
	one.Realm, other.Realm = 1, 2
	defer one.Close()
	k, err := one.Export(Item{Kind: Notify, Note: []byte("x")}, Options{Open: true, Place: 0x1234567})
	testenv.OK(t, err)
	if read, ok := ParseText(k.Text()); !ok || read != k || len(k.Text()) != 64 || read.Place() != 0x1234567 {
		t.Errorf("%q reads as %v", k.Text(), read)
	}
	for _, bad := range []string{k.Text()[:63], k.Text()[:57] + "0000000", k.Text()[:57] + "00000xx", k.Text() + "0"} {
		if _, ok := ParseText(bad); ok {
			t.Errorf("%q reads as a key", bad)
		}
	}
	same := Broker{Realm: 1}
	if it, err := same.Import(k, Notify); err != nil || string(it.Note) != "x" {
		t.Errorf("in the same realm: %v", err)
	}
	for _, b := range []*Broker{&other, &here} {
		_, err := b.Import(k, Notify)
		if !errors.Is(err, ErrGone) || strings.Contains(err.Error(), "of another server") != (b.Realm != 0) {
			t.Errorf("from realm %d: %v", b.Realm, err)
		}
	}
	if k.Far(Notify) == k.Far(Allocation) || k.Far(Notify) == k.secret {
		t.Error("the secrets of a key are the same")
	}
}
