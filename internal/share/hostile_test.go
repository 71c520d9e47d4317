//go:build linux

package share

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// fakeAt takes the name of an exporter and replies to every request with what f makes; the function returned ends it.
func fakeAt(t testing.TB, k Key, f func(request) ([]byte, []*os.File)) func() {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", socketName(k.tag))
	testenv.OK(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			b := make([]byte, 1024)
			n, _ := c.Read(b)
			q, ok := decodeRequest(b[:n])
			if !ok {
				t.Error("the importer asks in a strange way")
			}
			text, files := f(q)
			if text != nil {
				send(c, text, files)
			}
			for _, f := range files {
				f.Close()
			}
			c.Close()
		}
	})
	end := sync.OnceFunc(func() { l.Close(); wg.Wait() })
	t.Cleanup(end)
	return end
}

// What a process that pretends to be the exporter sends is refused, and its files do not stay.
func TestHostileExporter(t *testing.T) {
	before := openFiles(t)
	b := &Broker{}
	k := mustExport(t, b, "real", Options{})
	b.Close()
	other := newKey(k.tag, false)
	one := func() []*os.File { return []*os.File{file(t, "fake")} }
	fine := reply{status: granted, files: 1}
	for name, f := range map[string]func(q request) ([]byte, []*os.File){
		"without a proof":     func(q request) ([]byte, []*os.File) { return fine.encode(nil, q.nonce), one() },
		"another key's proof": func(q request) ([]byte, []*os.File) { return fine.encode(&other, q.nonce), one() },
		"replayed":            func(q request) ([]byte, []*os.File) { return fine.encode(&k, [16]byte{}), one() },
		"fewer files": func(q request) ([]byte, []*os.File) {
			a := reply{status: granted, files: 2}
			return a.encode(&k, q.nonce), one()
		},
		"more files": func(q request) ([]byte, []*os.File) {
			return fine.encode(&k, q.nonce),
				append(one(), one()...)
		},
		"far too many": func(q request) ([]byte, []*os.File) { return fine.encode(&k, q.nonce), slicesOf(30, one) },
		"files of unknown": func(q request) ([]byte, []*os.File) {
			a := reply{status: unknown, files: 1}
			return a.encode(nil, q.nonce), one()
		},
		"no such status": func(q request) ([]byte, []*os.File) {
			a := reply{status: 9}
			return a.encode(&k,
				q.nonce), nil
		},
		"too long":  func(q request) ([]byte, []*os.File) { return make([]byte, 1<<16), one() },
		"too short": func(q request) ([]byte, []*os.File) { return []byte("?"), one() },
		"noise":     func(q request) ([]byte, []*os.File) { return bytes.Repeat([]byte{0xa5}, 300), nil },
	} {
		end := fakeAt(t, k, f)
		it, err := Import(k, Allocation)
		if err == nil || len(it.Files) > 0 {
			t.Errorf("%s: taken", name)
		} else {
			wantError(t, err, ErrGarbage)
		}
		end()
	}
	end := fakeAt(t, k, func(request) ([]byte, []*os.File) { return nil, nil }) // hangs up without a reply, always
	_, err := Import(k, Allocation)
	wantError(t, err, ErrGone)
	end()
	if after := openFiles(t); after > before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func slicesOf(n int, f func() []*os.File) (all []*os.File) {
	for range n {
		all = append(all, f()...)
	}
	return all
}

// knock sends packets to an exporter as a hostile importer may, with a file, and hears what comes.
func knock(k Key, packets [][]byte) {
	c, err := net.DialUnix("unixpacket", nil, socketName(k.tag))
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	null, err := os.Open("/dev/null")
	if err != nil {
		return
	}
	defer null.Close()
	for _, p := range packets {
		c.WriteMsgUnix(p, unix.UnixRights(int(null.Fd())), nil)
	}
	c.Read(make([]byte, 10))
}

// Whatever importers send, the exporter goes on, and keeps none of the files they send.
func TestHostileImporter(t *testing.T) {
	b := broker(t)
	k := mustExport(t, b, "safe", Options{Open: true})
	r := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	for range 100 {
		var packets [][]byte
		for range 1 + r.IntN(3) {
			q := ask(k, Allocation)
			p := q.encode()
			switch r.IntN(4) {
			case 0:
				p = p[:r.IntN(len(p))]
			case 1:
				p[r.IntN(len(p))] ^= byte(1 + r.IntN(255))
			case 2:
				p = append(p, make([]byte, r.IntN(2000))...)
			}
			packets = append(packets, p)
		}
		wg.Go(func() { knock(k, packets) })
	}
	it, err := b.Import(k, Allocation)
	testenv.OK(t, err)
	it.Close()
	wg.Wait()
	if it, err = b.Import(k, Allocation); err != nil {
		t.Fatal(err)
	}
	it.Close()
}

func FuzzExporter(f *testing.F) {
	q := ask(newKey(1, false), Allocation)
	f.Add(q.encode())
	f.Add([]byte{})
	b := &Broker{}
	f.Cleanup(b.Close)
	k := mustExport(f, b, "safe", Options{Open: true})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if _, ok := decodeRequest(packet); ok && len(packet) != requestLen {
			t.Error("a request of another length was understood")
		}
		knock(k, [][]byte{packet})
		it, err := b.Import(k, Allocation)
		testenv.OK(t, err)
		it.Close()
	})
}

func FuzzReply(f *testing.F) {
	k := newKey(1, false)
	a := reply{status: granted, files: 1, note: []byte("note")}
	f.Add(a.encode(&k, [16]byte{}))
	f.Add([]byte("noise"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		a, ok := decodeReply(bytes.Clone(packet), k, [16]byte{1})
		if ok && a.status != unknown {
			t.Errorf("a reply without a proof was taken: %+v", a)
		}
	})
}
