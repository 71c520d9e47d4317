package pod

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// The baseline for copies: a sender and a receiver that only move bytes, over the same number of connections as a link.
// A message is its length and its bytes, sent and received in place; the answer has 8 bytes. The sender waits for
// answers only when window messages are in flight.

// sink receives the messages of push, plain or by TLS, and returns its address.
func (n *Node) sink(kind string) (string, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(n.config.Me().Address, 0).String())
	if err != nil {
		return "", err
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			if kind == "tls" {
				c = tls.Server(c, n.tls)
			}
			go func() {
				defer c.Close()
				into := make([]byte, 64*mega)
				var head [8]byte
				for {
					if _, err := io.ReadFull(c, head[:]); err != nil {
						return
					}
					if _, err := io.ReadFull(c, into[:binary.LittleEndian.Uint64(head[:])]); err != nil {
						return
					}
					if _, err := c.Write(head[:]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), nil
}

// push sends count messages of size bytes, after a tenth of them to warm up, and returns the seconds that it took.
func (n *Node) push(kind, to string, size, count int) (string, error) {
	from := make([]byte, size)
	pattern(from, 1)
	var all []net.Conn
	for range n.config.Connections {
		c, err := net.Dial("tcp", to)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if kind == "tls" {
			c = tls.Client(c, n.tls)
		}
		all = append(all, c)
	}
	began := time.Now()
	for _, n := range []int{count/10 + 1, count} {
		began = time.Now()
		var wg sync.WaitGroup
		failed := make(chan error, 2*len(all))
		for i, c := range all {
			mine := (n + i) / len(all)
			room := make(chan bool, window)
			wg.Go(func() {
				head := binary.LittleEndian.AppendUint64(nil, uint64(size))
				for range mine {
					room <- true
					if _, err := c.Write(head); err != nil {
						failed <- err
						return
					}
					if _, err := c.Write(from); err != nil {
						failed <- err
						return
					}
				}
			})
			wg.Go(func() {
				var head [8]byte
				for range mine {
					if _, err := io.ReadFull(c, head[:]); err != nil {
						failed <- err
						return
					}
					<-room
				}
			})
		}
		wg.Wait()
		if len(failed) > 0 {
			return "", <-failed
		}
	}
	return fmt.Sprint(time.Since(began).Seconds()), nil
}
