package pod

import (
	"errors"
	"io"
	"sync"
)

var errGreedy = errors.New("pod: the other side asks for more than it may")

const mostLanes = 16 // most connections of one link

// responder is the owner's end of a link over TCP or a Unix socket. It carries out the requests of each connection in
// their order: it receives writes into place and sends reads from there. It checks every request against the exports
// that the link has open.
type responder struct {
	stall   stall
	failed  func(error) // immutable; called once, when the link fails; it does not wait
	over    chan struct{}
	tickets int // guarded by Node.mu; number of unused tickets

	mu      sync.Mutex
	shares  map[uint64]*Export // guarded by mu; opened by the other side
	pipes   map[*pipe]bool     // guarded by mu; pipes being served
	serving sync.WaitGroup     // one for each of pipes
	why     error              // guarded by mu; why the responder has ended, or nil
}

func newResponder(n *Node, failed func(error)) *responder {
	r := &responder{failed: failed, over: make(chan struct{}), shares: map[uint64]*Export{}, pipes: map[*pipe]bool{}}
	r.stall.limit, r.stall.fail = n.config.Timeout, r.stop
	return r
}

// open lets the other side use an export that was admitted. It returns false if the link has ended; the caller must
// then release the export.
func (r *responder) open(share uint64, x *Export) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return false
	}
	r.shares[share] = x
	return true
}

// shut undoes open.
func (r *responder) shut(share uint64) {
	r.mu.Lock()
	x := r.shares[share]
	delete(r.shares, share)
	r.mu.Unlock()
	if x != nil {
		x.release()
	}
}

// find retains and returns an open export; nil if there is none.
func (r *responder) find(share uint64) *Export {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.shares[share]
	if x != nil {
		x.retain()
	}
	return x
}

// serve carries out the requests of a connection until it ends.
func (r *responder) serve(p *pipe) {
	r.mu.Lock()
	if r.why != nil || len(r.pipes) >= mostLanes {
		r.mu.Unlock()
		return
	}
	r.pipes[p] = true
	r.serving.Add(1)
	r.mu.Unlock()
	defer r.serving.Done()
	r.stall.add(p)
	for {
		h, err := p.receive()
		if err == nil {
			r.stall.begin()
			err = r.carryOut(p, &h)
			if err == nil && p.r.Buffered() < headerSize {
				err = p.w.Flush()
			}
			r.stall.end()
		}
		if err != nil {
			r.stop(gone(err))
			return
		}
	}
}

// carryOut carries out one request and answers it. An error ends the link.
func (r *responder) carryOut(p *pipe, h *header) error {
	if h.length > readMost || h.count > placesMost {
		return errGreedy
	}
	var list []byte
	if h.kind == kScatter || h.kind == kGather {
		list = make([]byte, h.count*placeSize)
		if _, err := io.ReadFull(p.r, list); err != nil {
			return err
		}
	}
	x := r.find(h.share)
	if x != nil {
		defer x.release()
	}
	answer := header{kind: kAck, op: h.op}
	status, err := uint8(statusUnknown), error(nil)
	switch h.kind {
	case kWrite, kScatter:
		if x != nil {
			status = x.checkRequest(h, list)
		}
		if status != statusDone {
			err = p.drain(h.length)
		} else {
			status, err = x.receive(p, h, list)
		}
	case kRead, kGather:
		if x != nil {
			status = x.checkRequest(h, list)
		}
		if status == statusDone && !x.fetchAll(h, list) {
			status = statusUnknown
		}
		if status == statusDone {
			answer.kind, answer.length = kData, h.length
		}
	default:
		return errAnswer
	}
	if answer.status = status; err != nil {
		return err
	}
	p.parts = p.parts[:0]
	if answer.kind == kData {
		for offset, n := range places(h, list) {
			p.parts = append(p.parts, x.bytes[offset:offset+n])
		}
	}
	err = p.send(&answer, nil, p.parts)
	clear(p.parts)
	return err
}

// places returns the places of a request that was checked.
func places(h *header, list []byte) func(yield func(offset, n uint64) bool) {
	return func(yield func(offset, n uint64) bool) {
		if list == nil {
			yield(h.offset, h.length)
			return
		}
		for ; len(list) > 0; list = list[placeSize:] {
			if !yield(getPlace(list)) {
				return
			}
		}
	}
}

// checkRequest returns statusDone if a request is valid and inside the export.
func (x *Export) checkRequest(h *header, list []byte) uint8 {
	if list == nil {
		switch {
		case h.length == 0:
			return statusBad
		case !inside(h.offset, h.length, x.size):
			return statusRange
		}
		return statusDone
	}
	total, status := checkList(list, h.count, x.size, readMost)
	if status == statusDone && total != h.length {
		return statusBad
	}
	return status
}

// fetchAll loads the places of a read from the mirror, if there is one.
func (x *Export) fetchAll(h *header, list []byte) bool {
	if x.mirror == nil {
		return true
	}
	for offset, n := range places(h, list) {
		if !x.fetch(offset, n) {
			return false
		}
	}
	return true
}

// receive reads the data of a write to their places. Data for a mirror are not received into bytes, which a read may be
// filling.
func (x *Export) receive(p *pipe, h *header, list []byte) (status uint8, err error) {
	left := h.length
	p.in = p.in[:0]
	var data []byte
	if x.mirror != nil {
		data = make([]byte, h.length)
		p.in = append(p.in, data)
	} else {
		for offset, n := range places(h, list) {
			p.in = append(p.in, x.bytes[offset:offset+n])
		}
	}
	err = p.readParts(p.in, &left)
	clear(p.in)
	if err != nil {
		return statusBad, err
	}
	if x.mirror != nil {
		for offset, n := range places(h, list) {
			if status == statusDone {
				status = x.put(offset, data[:n])
			}
			data = data[n:]
		}
	} else if x.wrote != nil {
		x.wrote()
	}
	return status, nil
}

// stop ends the responder, and does not wait.
func (r *responder) stop(err error) {
	r.mu.Lock()
	if r.why != nil {
		r.mu.Unlock()
		return
	}
	r.why = err
	for p := range r.pipes {
		p.raw.Close() //nolint:errcheck // it ends the goroutine
	}
	r.mu.Unlock()
	r.stall.stop()
	r.failed(err)
	go func() { // the caller may be one of serving
		r.serving.Wait()
		r.mu.Lock()
		left := r.shares
		r.shares = nil
		r.mu.Unlock()
		for _, x := range left {
			x.release()
		}
		close(r.over)
	}()
}

// close ends the responder and waits until it carries out no request.
func (r *responder) close(err error) {
	r.stop(err)
	<-r.over
}
