package pod

import (
	"errors"

	"ropeway/internal/ucx"
)

var errGreedy = errors.New("pod: the other side asks for more than it may")

// serve carries out a request of the other side.
func (x *end) serve(h *header, m *ucx.Message) {
	if x.answers >= mostServe {
		x.fail(errGreedy)
		return
	}
	s := x.e.newSlot(x)
	x.answers++
	x.work()
	answer := header{kind: kAck, op: h.op}
	export := x.shares[h.share]
	if export == nil {
		answer.status = statusUnknown
		s.send(&answer, 0, 0, false)
		return
	}
	switch h.kind {
	case kWrite:
		answer.status = x.receive(s, export, h, m, &answer)
		if s.ack != nil {
			return // when the data are there
		}
	case kScatter:
		answer.status = export.scatter(h, m)
	case kRead, kGather:
		if answer.status = x.reply(s, export, h, m); answer.status == statusDone {
			return
		}
	}
	s.send(&answer, 0, 0, false)
}

// receive takes the data of a write. If s.ack is not nil afterwards, they are still to come.
func (x *end) receive(s *slot, export *Export, h *header, m *ucx.Message, answer *header) uint8 {
	switch {
	case m.Size != h.length:
		return statusBad
	case !inside(h.offset, h.length, export.size):
		return statusRange
	case m.Data != nil:
		copy(export.bytes[h.offset:], m.Data)
		return statusDone
	}
	export.retain()
	s.export, s.acked = export, *answer
	s.ack, s.waits = &s.acked, waitReceived
	done, err := m.Receive(addressOf(export.bytes[h.offset:h.offset+h.length]), h.length, s.index)
	if done || err != nil {
		// ended sends the answer, and the slot may be free afterwards: serve must not look at it.
		s.ack = nil
		s.waits = 0
		s.export = nil
		export.release()
		if err != nil {
			return statusBad
		}
		return statusDone
	}
	return statusDone
}

// scatter puts the data of a request to their places.
func (e *Export) scatter(h *header, m *ucx.Message) uint8 {
	end := uint64(h.count) * placeSize
	if m.Data == nil || uint64(len(m.Data)) < end || h.count > placesMost {
		return statusBad
	}
	list, data := m.Data[:end], m.Data[end:]
	total, status := checkList(list, h.count, e.size)
	if status != statusDone || total != uint64(len(data)) {
		return max(status, statusRange)
	}
	for ; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		copy(e.bytes[offset:], data[:n])
		data = data[n:]
	}
	return statusDone
}

// reply sends what was asked for; if it returns anything but statusDone, nothing was sent.
func (x *end) reply(s *slot, export *Export, h *header, m *ucx.Message) uint8 {
	answer := header{kind: kData, op: h.op}
	if h.kind == kRead {
		switch {
		case h.length == 0 || h.length > chunkBytes:
			return statusBad
		case !inside(h.offset, h.length, export.size):
			return statusRange
		}
		export.retain()
		s.export = export
		part := export.bytes[h.offset : h.offset+h.length]
		s.send(&answer, addressOf(part), h.length, h.length > smallMost)
		return statusDone
	}
	total, status := checkList(m.Data, h.count, export.size)
	if status != statusDone {
		return status
	}
	room := s.room()[:0]
	for list := m.Data; len(list) > 0; list = list[placeSize:] {
		offset, n := getPlace(list)
		room = append(room, export.bytes[offset:offset+n]...)
	}
	s.send(&answer, addressOf(s.data), total, false)
	return statusDone
}
