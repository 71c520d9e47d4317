package share

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
)

// What goes over the socket: one question, one answer, each one packet.

var magic = [6]byte{'r', 'o', 'p', 'e', 'w', 1} // the last byte is the version

// question: magic, kind, 0, id, nonce.
const questionLen = 6 + 2 + 32 + 16

// answer: magic, status, files, proof, value, note. The proof is over all of the answer but itself; it is 0 if the key is unknown.
const (
	answerHead = 6 + 2 + 32 + 4
	maxAnswer  = answerHead + MaxNote
)

// status is how a question is answered.
type status byte

const (
	granted   status = iota + 1
	unknown          // the key
	notNamed         // value: number of the process, as the exporter sees it
	otherUser        // value: the user who asks
)

type question struct {
	kind  Kind
	id    [32]byte
	nonce [16]byte
}

func ask(k Key, kind Kind) question {
	q := question{kind: kind, id: k.id(kind)}
	rand.Read(q.nonce[:]) //nolint:errcheck // it never fails
	return q
}

func (q *question) encode() []byte {
	b := append(make([]byte, 0, questionLen), magic[:]...)
	b = append(b, byte(q.kind), 0)
	b = append(b, q.id[:]...)
	return append(b, q.nonce[:]...)
}

func decodeQuestion(b []byte) (question, bool) {
	if len(b) != questionLen || !bytes.HasPrefix(b, magic[:]) || b[7] != 0 {
		return question{}, false
	}
	return question{kind: Kind(b[6]), id: [32]byte(b[8:40]), nonce: [16]byte(b[40:])}, true
}

type answer struct {
	status status
	files  int
	value  uint32
	note   []byte
}

// encode writes an answer; without a key there is no proof.
func (a *answer) encode(k *Key, nonce [16]byte) []byte {
	b := append(make([]byte, 0, answerHead+len(a.note)), magic[:]...)
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

// decodeAnswer reads an answer; false if it is none, or claims more than that the key is unknown without a proof.
func decodeAnswer(b []byte, k Key, nonce [16]byte) (answer, bool) {
	if len(b) < answerHead || len(b) > maxAnswer || !bytes.HasPrefix(b, magic[:]) {
		return answer{}, false
	}
	a := answer{status: status(b[6]), files: int(b[7]), value: binary.LittleEndian.Uint32(b[40:]), note: bytes.Clone(b[answerHead:])}
	if a.status == unknown {
		return a, true
	}
	claim := [32]byte(b[8:40])
	clear(b[8:40])
	want := k.proof(nonce, b)
	return a, hmac.Equal(claim[:], want[:]) && a.status >= granted && a.status <= otherUser && a.files <= MaxFiles
}
