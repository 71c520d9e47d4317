package pod

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// What goes over the TLS connection of a link: the importer asks, the owner answers, one after the other. A frame is
// its length in 4 bytes and JSON.

const (
	protocol  = 2        // version of everything that two processes say to each other
	mostFrame = 16 << 10 // bytes; a worker's address has a few hundred
)

// What an importer asks for.
const (
	doHello = "hello" // the asking process; the first request, and only that
	doOpen  = "open"  // memory, by its secret
	doClose = "close" // what was opened
)

type request struct {
	Do       string
	Protocol int    `json:",omitempty"` // hello
	Server   int    `json:",omitempty"` // hello
	Pid      int    `json:",omitempty"` // hello: the number that a white list has
	Worker   []byte `json:",omitempty"` // hello: address of the UCX worker
	Token    []byte `json:",omitempty"` // hello: what messages to the importer begin with
	Importer []byte `json:",omitempty"` // hello: the same in each link of a node to one process, and secret
	Secret   []byte `json:",omitempty"` // open
	Again    bool   `json:",omitempty"` // open: it was open when the link before this one failed
	Near     string `json:",omitempty"` // open: where the importer wants the file, if the owner is near
	Share    uint64 `json:",omitempty"` // close
}

// How requests end.
const (
	wordUnknown    = "unknown"
	wordNotAllowed = "not allowed"
	wordProtocol   = "protocol"
)

type response struct {
	Refused string `json:",omitempty"` // why; "" if it was done
	Pid     int    `json:",omitempty"` // hello
	Worker  []byte `json:",omitempty"` // hello
	Token   []byte `json:",omitempty"` // hello: what messages to the owner begin with
	Share   uint64 `json:",omitempty"` // open
	About   About  `json:",omitzero"`  // open
	Near    bool   `json:",omitempty"` // open: the file was sent
}

// About is what an importer learns about memory.
type About struct {
	Size   uint64
	Asked  uint64 `json:",omitempty"` // by the program that has it; 0: all of it
	Device int    // number at its owner, or -1 for the host
	Page   int
}

var errFrame = errors.New("pod: a message of the other side is too long")

func writeFrame(c net.Conn, limit time.Duration, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > mostFrame {
		return errFrame
	}
	c.SetWriteDeadline(time.Now().Add(limit)) //nolint:errcheck // a connection that is closed fails below
	_, err = c.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readFrame reads one message. Waiting for its first byte takes as long as it takes if patient, the rest limit.
func readFrame(c net.Conn, limit time.Duration, patient bool, v any) error {
	var head [4]byte
	c.SetReadDeadline(deadline(limit, patient)) //nolint:errcheck // a connection that is closed fails below
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return err
	}
	c.SetReadDeadline(deadline(limit, false)) //nolint:errcheck // as above
	if _, err := io.ReadFull(c, head[1:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > mostFrame {
		return errFrame
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("pod: %w", err)
	}
	return nil
}

func deadline(limit time.Duration, never bool) time.Time {
	if never {
		return time.Time{}
	}
	return time.Now().Add(limit)
}
