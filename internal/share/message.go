package share

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
)

// The protocol of the socket is one request and one reply, each one packet.

var magic = [6]byte{'r', 'o', 'p', 'e', 'w', 1} // the last byte is the version

// request: magic, kind, 0, id, nonce.
const requestLen = 6 + 2 + 32 + 16

// reply: magic, status, files, proof, value, note. The proof covers the reply except itself; it is 0 if unknown key
// is unknown.
const (
	replyHead = 6 + 2 + 32 + 4
	maxReply  = replyHead + MaxNote
)

// status is the outcome of a request.
type status byte

const (
	granted   status = iota + 1
	unknown          // unknown key
	notNamed         // value: number of the process in the exporter's view
	otherUser        // value: the importing user
)

type request struct {
	kind  Kind
	id    [32]byte
	nonce [16]byte
}

func ask(k Key, kind Kind) request {
	q := request{kind: kind, id: k.id(kind)}
	rand.Read(q.nonce[:]) //nolint:errcheck // it never fails
	return q
}

func (q *request) encode() []byte {
	b := append(make([]byte, 0, requestLen), magic[:]...)
	b = append(b, byte(q.kind), 0)
	b = append(b, q.id[:]...)
	return append(b, q.nonce[:]...)
}

func decodeRequest(b []byte) (request, bool) {
	if len(b) != requestLen || !bytes.HasPrefix(b, magic[:]) || b[7] != 0 {
		return request{}, false
	}
	return request{kind: Kind(b[6]), id: [32]byte(b[8:40]), nonce: [16]byte(b[40:])}, true
}

type reply struct {
	status status
	files  int
	value  uint32
	note   []byte
}

// encode returns the packet of a reply; without a key it has no proof.
func (a *reply) encode(k *Key, nonce [16]byte) []byte {
	b := append(make([]byte, 0, replyHead+len(a.note)), magic[:]...)
	b = append(b, byte(a.status), byte(a.files))
	b = append(b, make([]byte, 32)...)
	b = binary.LittleEndian.AppendUint32(b, a.value)
	b = append(b, a.note...)
	if k != nil {
		p := k.proof(nonce, b)
		copy(b[8:40], p[:])
	}
	return b
}

// decodeReply parses a reply. It returns false if b is not a reply, or has no valid proof and reports anything but an
// unknown key.
func decodeReply(b []byte, k Key, nonce [16]byte) (reply, bool) {
	if len(b) < replyHead || len(b) > maxReply || !bytes.HasPrefix(b, magic[:]) {
		return reply{}, false
	}
	a := reply{status: status(b[6]), files: int(b[7]), value: binary.LittleEndian.Uint32(b[40:]),
		note: bytes.Clone(b[replyHead:])}
	if a.status == unknown {
		return a, true
	}
	claim := [32]byte(b[8:40])
	clear(b[8:40])
	want := k.proof(nonce, b)
	return a, hmac.Equal(claim[:], want[:]) && a.status >= granted && a.status <= otherUser && a.files <= MaxFiles
}
