package pod

import (
	"crypto/rand"
	"encoding/binary"
)

// The messages of copies. Every message has a header, and most have data. Requests identify memory by the number from
// opening it on the link, and places in it by their offset. The owner answers each request once; over UCX it answers a
// kRead of several pieces with one answer for each.

// kind is the kind of a message.
type kind uint8

const (
	kWrite   kind = iota + 1 // write data to offset; answered by kAck
	kScatter                 // data is a list of places, followed by the bytes for them; answered by kAck
	kRead                    // read length bytes at offset; answered by kData, or by kAck if refused
	// data is a list of places; answered by kData with the bytes of all places in order, or by kAck if refused
	kGather
	// The order matters: kGather-kRead equals kScatter-kWrite.

	kAck  // a request has ended, with a status
	kData // the bytes of a read, or the piece of them at offset
)

// Results of a request.
const (
	statusDone    = iota
	statusUnknown // no such memory
	statusRange   // not inside it
	statusBad     // an invalid message
)

const (
	headerSize = 64
	placeSize  = 16 // bytes of an entry of a list: offset and length

	pieceMost  = 256 << 10 // most bytes of one message
	readMost   = 1 << 20   // most bytes of a kRead
	placesMost = 4096      // most entries of a list
	scatters   = 1000      // most entries in a kScatter, which has a piece after the list
	dataMost   = pieceMost + scatters*placeSize
)

// token begins every UCX message to one side of a link. Only the two sides know it.
type token [16]byte

func newToken() (t token) {
	rand.Read(t[:]) //nolint:errcheck // it never fails
	return t
}

// header is the header of a message.
type header struct {
	token          token
	kind           kind
	status         uint8
	count          uint32 // places of a list
	op             uint64 // number of the request; its answer has the same
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

// inside reports whether n bytes at offset are inside size bytes.
func inside(offset, n, size uint64) bool { return offset <= size && n <= size-offset }

// checkList returns the total bytes of the places in a list. The status is not statusDone if the list does not have
// count places inside size bytes, or the total exceeds most.
func checkList(list []byte, count uint32, size, most uint64) (total uint64, status uint8) {
	if count == 0 || count > placesMost || uint64(len(list)) != uint64(count)*placeSize {
		return 0, statusBad
	}
	for ; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		if !inside(offset, n, size) {
			return 0, statusRange
		}
		if total += n; n > most || total > most {
			return 0, statusBad
		}
	}
	return total, statusDone
}
