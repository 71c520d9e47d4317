package pod

import (
	"crypto/rand"
	"encoding/binary"
)

// What goes over UCX. Every message has a header, and most have data. Requests name memory by a number that the
// link's open gave, and places in it by their offset. The owner answers each request once, but for a kRead of several
// pieces, which it answers by each of them.

// kind is what a message is.
type kind uint8

const (
	kWrite   kind = iota + 1 // data go to offset; answered by kAck
	kScatter                 // data are a list, and what goes to the places in it; answered by kAck
	kRead                    // length bytes at offset are wanted; answered by kData, or kAck if refused
	// data are a list of places; answered by kData with what is there, one after the other, or kAck
	kGather
	// In this order: kScatter is to kWrite what kGather is to kRead.

	kAck  // a request has ended, with a status; and so have those in the list that data are
	kData // what was asked for, or a piece of it that begins at offset in what was asked for
)

// How a request ends.
const (
	statusDone    = iota
	statusUnknown // no such memory
	statusRange   // not inside it
	statusBad     // a message that makes no sense
)

const (
	headerSize = 64
	placeSize  = 16 // an entry of a list: offset and length
	opSize     = 8  // an entry of a list of requests

	pieceMost  = 256 << 10 // bytes that travel together
	readMost   = 1 << 20   // bytes of a kRead, which come in such pieces
	placesMost = 4096      // entries of a list
	scatters   = 1000      // entries of the list of a kScatter, which has a piece after it
	dataMost   = pieceMost + scatters*placeSize

	messageMost = headerSize + dataMost
	segmentMost = pieceMost + 16<<10 // bytes that UCX sends and receives at once over TCP: a message and UCX's headers
)

// token is what messages to one side of a link begin with. Nobody else knows it.
type token [16]byte

func newToken() (t token) {
	rand.Read(t[:]) //nolint:errcheck // it never fails
	return t
}

// header is what a message begins with.
type header struct {
	token          token
	kind           kind
	status         uint8
	count          uint32 // places of a list
	op             uint64 // of the request; an answer has the same
	share          uint64
	offset, length uint64
}

func (h *header) put(b *[headerSize]byte) {
	copy(b[:], h.token[:])
	b[16], b[17], b[18], b[19] = byte(h.kind), h.status, 0, 0
	binary.LittleEndian.PutUint32(b[20:], h.count)
	binary.LittleEndian.PutUint64(b[24:], h.op)
	binary.LittleEndian.PutUint64(b[32:], h.share)
	binary.LittleEndian.PutUint64(b[40:], h.offset)
	binary.LittleEndian.PutUint64(b[48:], h.length)
	binary.LittleEndian.PutUint64(b[56:], 0)
}

func getHeader(b []byte) (h header, ok bool) {
	if len(b) != headerSize {
		return h, false
	}
	copy(h.token[:], b)
	h.kind, h.status = kind(b[16]), b[17]
	h.count = binary.LittleEndian.Uint32(b[20:])
	h.op = binary.LittleEndian.Uint64(b[24:])
	h.share = binary.LittleEndian.Uint64(b[32:])
	h.offset = binary.LittleEndian.Uint64(b[40:])
	h.length = binary.LittleEndian.Uint64(b[48:])
	return h, h.kind >= kWrite && h.kind <= kData
}

func putPlace(b []byte, offset, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, offset), n)
}

func getPlace(b []byte) (offset, n uint64) {
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
}

func putOp(b []byte, op uint64) []byte { return binary.LittleEndian.AppendUint64(b, op) }
func getOp(b []byte) uint64            { return binary.LittleEndian.Uint64(b) }

// inside reports whether n bytes at offset are among size.
func inside(offset, n, size uint64) bool { return offset <= size && n <= size-offset }

// checkList is how many bytes the places of a list have together; false if it is not count places inside size bytes,
// or too much.
func checkList(list []byte, count uint32, size uint64) (total uint64, status uint8) {
	if count == 0 || count > placesMost || uint64(len(list)) != uint64(count)*placeSize {
		return 0, statusBad
	}
	for ; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		if !inside(offset, n, size) {
			return 0, statusRange
		}
		if total += n; n > pieceMost || total > pieceMost {
			return 0, statusBad
		}
	}
	return total, statusDone
}
