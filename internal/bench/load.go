package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ropeway"
)

// load is a stream with the copies of a sample. There are two sets, which read from places that are shift
// apart.
type load struct {
	dev      *ropeway.Device
	stream   *ropeway.Stream
	src, dst memory
	moves    []move
	direct   bool // pageable memory, which is copied without a stream
	spans    [2][][2]ropeway.Span
	batches  [2][]*ropeway.Batch
}

// setting is a case that is ready to run.
type setting struct {
	Case
	loads []*load
	moves []move
	parts [][]move // for all CPUs
	turn  int      // which set is next
}

// skipError is why a case cannot be measured here.
type skipError string

func (s skipError) Error() string { return string(s) }

// prepare makes a case ready. A case that is not to be had here is a skipError.
func (r *roundMemory) prepare(c Case) (*setting, error) {
	need := Devices([]Case{c})
	if need > len(r.devices) {
		return nil, skipError(fmt.Sprintf("needs %d devices", need))
	}
	s := &setting{Case: c, moves: c.moves()}
	s.parts = cut(s.moves)
	if c.Direction == PeerToPeer {
		if err := r.reach(); err != nil {
			return nil, r.skip(err)
		}
	}
	for i := range c.loads() {
		l, err := r.load(c, i/c.Streams, i%c.Streams, s.moves)
		if err != nil {
			return nil, errors.Join(r.skip(err), s.close())
		}
		s.loads = append(s.loads, l)
	}
	return s, nil
}

// skip turns "not supported" into a skipError.
func (r *roundMemory) skip(err error) error {
	if errors.Is(err, ropeway.ErrRTFeatureNotSupport) {
		name, _ := r.rt.Product()
		return skipError(fmt.Sprintf("not on the %s (%d)", name, ropeway.ErrRTFeatureNotSupport))
	}
	return err
}

func (r *roundMemory) load(c Case, device, number int, moves []move) (*load, error) {
	from, to := c.spots(device, number)
	l := &load{dev: r.devices[device], moves: moves}
	var err error
	if l.src, err = r.at(from); err != nil {
		return nil, err
	}
	if l.dst, err = r.at(to); err != nil {
		return nil, err
	}
	l.direct = c.Memory == Pageable && (l.src.buf == nil || l.dst.buf == nil)
	for turn := range 2 {
		var b *ropeway.Batch
		for i, v := range moves {
			dst, src := l.dst.span(v.dst, v.n), l.src.span(v.src+turn*shift, v.n)
			if c.Segment == 0 {
				l.spans[turn] = append(l.spans[turn], [2]ropeway.Span{dst, src})
				continue
			}
			if i%mostSegments == 0 {
				b = new(ropeway.Batch)
				l.batches[turn] = append(l.batches[turn], b)
			}
			b.Add(dst, src)
		}
	}
	l.stream, err = l.dev.NewStream()
	return l, err
}

// submit queues everything.
func (l *load) submit(turn int) error {
	for _, s := range l.spans[turn] {
		var err error
		if l.direct {
			err = l.dev.Copy(s[0], s[1])
		} else {
			err = l.stream.Copy(s[0], s[1])
		}
		if err != nil {
			return err
		}
	}
	for _, b := range l.batches[turn] {
		var err error
		if l.direct {
			err = l.dev.CopyBatch(b)
		} else {
			err = l.stream.CopyBatch(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sample copies once, on all loads, and reports how long that took, the waiting included.
func (s *setting) sample(ctx context.Context) (time.Duration, error) {
	s.turn = 1 - s.turn
	start := time.Now()
	err := s.submit()
	for _, l := range s.loads {
		if err == nil {
			err = l.stream.Synchronize(ctx)
		}
	}
	return max(time.Since(start), 1), err
}

// submit queues the work of all loads. Copies of pageable memory return when they are over: loads of those need
// threads.
func (s *setting) submit() error {
	if s.Memory != Pageable || len(s.loads) == 1 {
		for _, l := range s.loads {
			if err := l.submit(s.turn); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(s.loads))
	var wg sync.WaitGroup
	for i, l := range s.loads {
		wg.Go(func() { errs[i] = l.submit(s.turn) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// verify compares every byte that the latest sample wrote, and reports how many those were.
func (s *setting) verify(r *roundMemory, tamper func([]byte)) (int64, error) {
	n := s.region()
	for _, l := range s.loads {
		b := l.dst.host
		if b == nil {
			b = r.staging.host
			if err := l.dev.Copy(r.staging.span(0, n), l.dst.span(0, n)); err != nil {
				return 0, err
			}
		}
		if tamper != nil {
			tamper(b[:n])
		}
		if err := compare(s.Case, b[:n], r.pattern[s.turn*shift:], s.moves); err != nil {
			return 0, err
		}
	}
	return int64(s.Bytes()), nil
}

// close ends the streams; the memory stays for other cases.
func (s *setting) close() error {
	var err error
	for _, l := range s.loads {
		if l.stream != nil {
			err = errors.Join(err, l.stream.Close())
		}
	}
	return err
}
