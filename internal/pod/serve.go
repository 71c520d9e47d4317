package pod

import (
	"errors"

	"ropeway/internal/ucx"
)

var errGreedy = errors.New("pod: the other side asks for more than it may")

// serve carries out a request of the other side.
func (x *end) serve(h *header, m *ucx.Message) {
	if x.answers >= mostServe {
		x.e.fail(errGreedy)
		return
	}
	s := x.e.newSlot(x)
	x.answers++
	x.work()
	answer := header{kind: kAck, op: h.op}
	export := x.shares[h.share]
	if export == nil {
		answer.status = statusUnknown
		s.send(&answer, 0, 0)
		return
	}
	switch h.kind {
	case kWrite:
		answer.status = export.write(h, m)
	case kScatter:
		answer.status = export.scatter(h, m)
	case kRead, kGather:
		if answer.status = x.reply(s, export, h, m); answer.status == statusDone {
			return
		}
	}
	s.send(&answer, 0, 0)
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
func (x *end) reply(s *slot, export *Export, h *header, m *ucx.Message) uint8 {
	answer := header{kind: kData, op: h.op}
	if h.kind == kRead {
		switch {
		case h.length == 0 || h.length > pieceMost:
			return statusBad
		case !inside(h.offset, h.length, export.size):
			return statusRange
		}
		if !export.fetch(h.offset, h.length) {
			return statusUnknown
		}
		export.retain()
		s.export = export
		part := export.bytes[h.offset : h.offset+h.length]
		s.send(&answer, addressOf(part), h.length)
		return statusDone
	}
	total, status := checkList(m.Data, h.count, export.size)
	if status != statusDone {
		return status
	}
	room := s.room()[:0]
	for list := m.Data; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		if !export.fetch(offset, n) {
			return statusUnknown
		}
		room = append(room, export.bytes[offset:offset+n]...)
	}
	s.send(&answer, addressOf(s.data), total)
	return statusDone
}
