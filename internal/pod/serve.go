package pod

import "ropeway/internal/ucx"

// serve carries out a request of the other side.
func (x *end) serve(h *header, m *ucx.Message) {
	if x.answers >= mostServe {
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
	x.newAnswer().send(&header{kind: kAck, op: h.op, status: status}, 0, 0)
}

func (x *end) newAnswer() *slot {
	x.answers++
	return x.e.newSlot(x)
}

// write writes the data of a request to the memory.
func (e *Export) write(h *header, m *ucx.Message) uint8 {
	switch {
	case uint64(len(m.Data)) != h.length:
		return statusBad
	case !inside(h.offset, h.length, e.size):
		return statusRange
	}
	return e.put(h.offset, m.Data)
}

// scatter writes the data of a request to the places in its list.
func (e *Export) scatter(h *header, m *ucx.Message) uint8 {
	end := uint64(h.count) * placeSize
	if uint64(len(m.Data)) < end || h.count > placesMost {
		return statusBad
	}
	list, data := m.Data[:end], m.Data[end:]
	total, status := checkList(list, h.count, e.size, pieceMost)
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

// reply sends the bytes of a read. If it does not return statusDone, it has sent nothing.
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
	total, status := checkList(m.Data, h.count, export.size, pieceMost)
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
	export.retain() // the link may fail in send
	defer export.release()
	for at := uint64(0); at < h.length && x.e.why == nil; at += pieceMost {
		s := x.newAnswer()
		export.retain()
		s.export = export
		part := export.bytes[h.offset+at : h.offset+min(at+pieceMost, h.length)]
		s.send(&header{kind: kData, op: h.op, offset: at}, addressOf(part), uint64(len(part)))
	}
}
