package pod

import (
	"errors"

	"ropeway/internal/ucx"
)

var errGreedy = errors.New("pod: the other side asks for more than it may")

const (
	ackLater = 32 << 10 // bytes of a write from which its answer may wait for that of the next one
	ackMost  = 4        // writes that are answered together
)

// serve carries out a request of the other side.
func (x *end) serve(h *header, m *ucx.Message) {
	if x.answers+len(x.owed) >= mostServe {
		x.e.fail(errGreedy)
		return
	}
	x.work()
	status := uint8(statusUnknown)
	if export := x.shares[h.share]; export != nil {
		switch h.kind {
		case kWrite:
			status = export.write(h, m)
		case kScatter:
			status = export.scatter(h, m)
		case kRead, kGather:
			if status = x.reply(export, h, m); status == statusDone {
				return
			}
		}
	}
	if status != statusDone || len(m.Data) < ackLater {
		s := x.newAnswer()
		s.send(&header{kind: kAck, op: h.op, status: status}, 0, 0)
		return
	}
	if x.owed = append(x.owed, h.op); len(x.owed) >= ackMost {
		x.settleUp()
	}
}

func (x *end) newAnswer() *slot {
	x.answers++
	return x.e.newSlot(x)
}

// settleUp answers writes that were carried out. The engine calls it when nothing more has come: an answer is a message
// of its own, which costs as much as copying 30 KiB, and the other side has no use for it while it has others to send.
func (x *end) settleUp() {
	if len(x.owed) == 0 {
		return
	}
	s := x.newAnswer()
	room := s.room()[:0]
	for _, op := range x.owed[1:] {
		room = putOp(room, op)
	}
	h := header{kind: kAck, op: x.owed[0], count: uint32(len(x.owed) - 1)}
	x.owed = x.owed[:0]
	s.send(&h, addressOf(s.data), uint64(len(room)))
}

// write puts the data of a request to its place.
func (e *Export) write(h *header, m *ucx.Message) uint8 {
	switch {
	case uint64(len(m.Data)) != h.length:
		return statusBad
	case !inside(h.offset, h.length, e.size):
		return statusRange
	}
	return e.put(h.offset, m.Data)
}

// scatter puts the data of a request to their places.
func (e *Export) scatter(h *header, m *ucx.Message) uint8 {
	end := uint64(h.count) * placeSize
	if uint64(len(m.Data)) < end || h.count > placesMost {
		return statusBad
	}
	list, data := m.Data[:end], m.Data[end:]
	total, status := checkList(list, h.count, e.size)
	if status != statusDone || total != uint64(len(data)) {
		return max(status, statusRange)
	}
	for ; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		if status := e.put(offset, data[:n]); status != statusDone {
			return status
		}
		data = data[n:]
	}
	return statusDone
}

// reply sends what was asked for; if it returns anything but statusDone, nothing was sent.
func (x *end) reply(export *Export, h *header, m *ucx.Message) uint8 {
	if h.kind == kRead {
		switch {
		case h.length == 0 || h.length > readMost:
			return statusBad
		case !inside(h.offset, h.length, export.size):
			return statusRange
		}
		if !export.fetch(h.offset, h.length) {
			return statusUnknown
		}
		x.pieces(export, h)
		return statusDone
	}
	total, status := checkList(m.Data, h.count, export.size)
	if status != statusDone {
		return status
	}
	for list := m.Data; len(list) > 0; list = list[placeSize:] {
		if !export.fetch(getPlace(list)) {
			return statusUnknown
		}
	}
	s := x.newAnswer()
	room := s.room()[:0]
	for list := m.Data; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		room = append(room, export.bytes[offset:offset+n]...)
	}
	s.send(&header{kind: kData, op: h.op}, addressOf(s.data), total)
	return statusDone
}

// pieces answers a kRead.
func (x *end) pieces(export *Export, h *header) {
	export.retain() // the link may fail meanwhile
	defer export.release()
	for at := uint64(0); at < h.length && x.e.why == nil; at += pieceMost {
		s := x.newAnswer()
		export.retain()
		s.export = export
		part := export.bytes[h.offset+at : h.offset+min(at+pieceMost, h.length)]
		s.send(&header{kind: kData, op: h.op, offset: at}, addressOf(part), uint64(len(part)))
	}
}
