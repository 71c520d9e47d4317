//go:build linux

package share

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// flood connects to an exporter again and again, from many goroutines, and says nothing. It is a role of the test
// binary.
func flood() {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	k, _ := ParseText(strings.TrimSpace(line))
	var n atomic.Int64
	for range 50 {
		go func() {
			for {
				if c, err := net.DialUnix("unixpacket", nil, socketName(k.tag)); err == nil {
					if n.Add(1) == 2000 {
						fmt.Println("busy")
					}
					c.Close() //nolint:errcheck // nothing was written
				}
			}
		}()
	}
}

// TestFlood proves that a process of another user that connects as fast as it can does not keep others from importing.
func TestFlood(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	b := broker(t)
	k := mustExport(t, b, "safe", Options{Open: true})
	c := spawn(t, "flood", 65534)
	fmt.Fprintln(c.in, k.Text())
	c.line(t)
	begin := time.Now()
	for range 50 { // each takes 5 s at most
		it, err := b.Import(k, Allocation)
		testenv.OK(t, err)
		it.Close()
	}
	if took := time.Since(begin); took > 30*time.Second {
		// some 0.1 s; more than a minute if strangers are served like others
		t.Errorf("50 imports took %v", took)
	}
}

// crowd connects to an exporter many times, keeps the connections, and says when most have been hung up on. It is a
// role of the test binary.
func crowd() {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	k, _ := ParseText(strings.TrimSpace(line))
	left := make(chan struct{})
	for range 300 {
		c, err := wait(socketName(k.tag), time.Minute)
		if err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			c.Read(make([]byte, 1)) //nolint:errcheck // it fails when the exporter hangs up
			left <- struct{}{}
		}()
	}
	for range 300 - maxPeers {
		<-left
	}
	fmt.Println("alone")
}

// TestStrangersTakeNoPlaces proves that however many processes of other users come, one that may import keeps its
// place; also one of another user that is on a white list.
func TestStrangersTakeNoPlaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	b := broker(t)
	k := mustExport(t, b, "safe", Options{Open: true})
	c, err := wait(socketName(k.tag), time.Minute)
	testenv.OK(t, err)
	defer c.Close()
	testenv.Eventually(t, "it has a place", func() bool {
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		return len(b.server.peers) == 1
	})
	others := spawn(t, "crowd", 65534)
	guest := spawn(t, "import", 65534)
	testenv.OK(t, b.Allow(k, []int32{int32(guest.Process.Pid)}))
	if said := others.imports(t, k); said != "alone" {
		t.Fatal(said)
	}
	wantText(t, guest.imports(t, k), "got safe")
	q := ask(k, Allocation)
	if _, err := c.Write(q.encode()); err != nil {
		t.Fatal(err)
	}
	_, files, err := receive(c)
	if err != nil || len(files) != 1 {
		t.Errorf("the peer that waited has lost its place: %v", err)
	}
	for _, f := range files {
		f.Close()
	}
}
