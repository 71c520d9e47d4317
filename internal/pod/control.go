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

// The messages on the control connection of a link: the importer sends a request, the owner a response, one at a time.
// A frame is its length in 4 bytes, followed by JSON.

const (
	protocol  = 3        // version of all messages between processes
	mostFrame = 16 << 10 // most bytes; a worker's address has a few hundred
)

// Kinds of requests.
const (
	doHello = "hello" // describes the importer; the first request, and only that
	doOpen  = "open"  // opens memory by its secret
	doClose = "close" // closes memory
	doBulk  = "bulk"  // asks for a ticket for a connection for copies
)

type request struct {
	Do       string
	Protocol int    `json:",omitempty"` // hello
	Server   int    `json:",omitempty"` // hello
	Pid      int    `json:",omitempty"` // hello: the process number in white lists
	Worker   []byte `json:",omitempty"` // hello: address of the UCX worker, if there is one
	Token    []byte `json:",omitempty"` // hello, with a worker: token of messages to the importer
	Importer []byte `json:",omitempty"` // hello: secret; the same for all links of a node to one process
	Secret   []byte `json:",omitempty"` // open
	Again    bool   `json:",omitempty"` // open: it was open when the previous link failed
	Share    uint64 `json:",omitempty"` // close
}

// Values of Refused.
const (
	wordUnknown    = "unknown"
	wordNotAllowed = "not allowed"
	wordProtocol   = "protocol"
)

type response struct {
	Refused string `json:",omitempty"` // why the request was refused; "" if it was not
	Pid     int    `json:",omitempty"` // hello
	Worker  []byte `json:",omitempty"` // hello: copies go over UCX
	Token   []byte `json:",omitempty"` // hello: token of messages to the owner
	Share   uint64 `json:",omitempty"` // open
	About   About  `json:",omitzero"`  // open
	Ticket  []byte `json:",omitempty"` // bulk; open: for the file of the memory
	Proof   []byte `json:",omitempty"` // with a ticket: the owner's answer to it
	Plain   bool   `json:",omitempty"` // bulk: the ticket is also valid without TLS
}

// About describes memory to importers.
type About struct {
	Size   uint64
	Asked  uint64 `json:",omitempty"` // size that the owner's program asked for; 0: Size
	Device int    // number on its owner's server, or -1 for the host
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

// readFrame reads one frame. The limit applies to each part; if patient, the wait for the first byte has none.
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
	return readBody(c, head, v)
}

// readBody reads the rest of a frame after its length.
func readBody(c io.Reader, head [4]byte, v any) error {
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
