package trace

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"ropeway/internal/observe"
	"ropeway/internal/recorder"
	"ropeway/internal/timeline"
)

// read reads a file. It reads a truncated file, whose process was killed, to its end.
func read(r io.Reader) (*process, error) {
	b := make([]byte, max(recorder.SlotBytes, recorder.HeaderBytes))
	if _, err := io.ReadFull(r, b[:recorder.HeaderBytes]); err != nil {
		return nil, errors.New("it has no header")
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	switch word(recorder.HeadMagic) {
	case recorder.Magic:
	case 0:
		return nil, errors.New("its process ended before it did anything")
	default:
		return nil, errors.New("it is no recording, or one of another version")
	}
	p := &process{
		id: int(word(recorder.HeadProcess)), wall: int64(word(recorder.HeadWall)),
		began: int64(word(recorder.HeadStart)),
		flags: word(recorder.HeadFlags), lost: word(recorder.HeadLost),
		texts: map[textKey]string{}, parts: map[textKey]map[uint8]string{}, streams: map[int32]madeStream{},
		more: map[taskKey]more{}, blocked: map[callKey]int64{}, awaited: map[callKey]taskKey{},
		sites: map[uint16]site{}, ranges: map[uint32]rangeOf{}, kernels: map[coreKey]uint16{},
		models: map[uint32]*modelOf{},
	}
	var slots [recorder.Slots]uint64 // numbers of the windows that are still in slots
	for i := range slots {
		slots[i] = word(recorder.HeadSlots + i)
	}
	var latest []byte // slots are newer than windows, so they are parsed last
	for part := 0; ; part++ {
		n, err := io.ReadFull(r, b)
		switch {
		case part < len(slots):
			if slots[part] != 0 {
				latest = append(latest, b[:n-n%recorder.RecordBytes]...)
			}
		case !slices.Contains(slots[:], uint64(part-len(slots)+1)):
			// a window that is also in a slot may be incomplete
			p.records(b[:n])
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	p.records(latest)
	p.clock.sort()
	p.joinTexts()
	return p, nil
}

// records parses the records in b.
func (p *process) records(b []byte) {
	for ; len(b) >= recorder.RecordBytes; b = b[recorder.RecordBytes:] {
		p.record((*[recorder.RecordBytes]byte)(b))
	}
}

// record parses a record.
func (p *process) record(b *[recorder.RecordBytes]byte) {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	low := func(i int) uint32 { return binary.LittleEndian.Uint32(b[8*i:]) }
	high := func(i int) uint32 { return binary.LittleEndian.Uint32(b[8*i+4:]) }
	stream := int32(high(0))
	switch recorder.Type(b[0]) {
	case recorder.TaskType:
		p.tasks = append(p.tasks, task{
			Task: timeline.Task{
				Kind: observe.Kind(b[1]), Direction: observe.Direction(b[2]), Memory: observe.Memory(b[3]),
				Number: low(1), Submit: int64(word(2)), Bytes: word(3) & (1<<48 - 1),
				Start: timeline.None, End: timeline.None,
			},
			stream: stream, thread: high(1), device: int32(int16(word(3) >> 48)),
		})
	case recorder.MoreType:
		k := taskKey{stream, low(1)}
		m := p.more[k]
		m.segments, m.call = high(1), int64(word(2))
		p.more[k] = m
	case recorder.EventType:
		k := taskKey{stream, low(1)}
		m := p.more[k]
		m.event, m.after = word(2), taskKey{int32(low(3)), high(1)}
		p.more[k] = m
	case recorder.RanType:
		p.rans = append(p.rans, ran{
			taskKey: taskKey{stream, low(1)}, result: b[1], code: int32(high(1)),
			began: int64(word(2)), ended: int64(word(3)),
		})
	case recorder.CallType:
		state := observe.State(b[1])
		c := call{
			Call:   timeline.Call{Start: int64(word(2)), End: int64(word(3)), Code: int32(high(1))},
			thread: low(1), function: binary.LittleEndian.Uint16(b[2:]), stream: stream,
			continued: state == observe.Continued,
		}
		if state == observe.Waiting {
			c.End = timeline.None
			if k := (taskKey{int32(high(3)), low(3)}); k.number != 0 {
				p.awaited[c.key()] = k
			}
			p.waiting = append(p.waiting, c)
		} else {
			p.calls = append(p.calls, c)
		}
	case recorder.CopiedType:
		began := int64(word(2))
		ended := began + int64(high(3))
		p.tasks = append(p.tasks, task{
			Task: timeline.Task{
				Direction: observe.Direction(b[1] & 0xf), Memory: observe.Memory(b[1] >> 4),
				Number: low(1), Submit: began, Bytes: uint64(low(3)), Start: timeline.None, End: timeline.None,
			},
			stream: stream, thread: high(1), device: ofStream,
		})
		p.rans = append(p.rans, ran{taskKey: taskKey{stream, low(1)}, ended: ended})
		p.calls = append(p.calls, call{
			Call: timeline.Call{Start: began, End: ended}, thread: high(1), function: binary.LittleEndian.Uint16(b[2:]),
			stream: stream,
		})
	case recorder.BlockedType:
		p.blocked[keyOf(low(1), int64(word(2)), stream)] = int64(word(3))
	case recorder.TextType:
		k := textKey{b[1], high(0)}
		if p.parts[k] == nil {
			p.parts[k] = map[uint8]string{}
		}
		p.parts[k][b[3]] = string(b[8 : 8+min(int(b[2]), recorder.RecordBytes-8)])
	case recorder.StreamType:
		p.streams[stream] = madeStream{device: int32(low(1)), isDefault: b[1] == 1}
	case recorder.SiteType:
		p.sites[binary.LittleEndian.Uint16(b[2:])] = site{function: uint16(high(0)), line: low(1), module: high(1),
			offset: word(2)}
	case recorder.RangeType:
		r := rangeOf{Range: timeline.Range{Kind: observe.RangeKind(b[1]), Start: int64(word(2)), End: int64(word(3))},
			thread: low(1)}
		if r.Kind == observe.Moment {
			r.mark, r.End = taskKey{stream, uint32(word(3))}, r.Start
		}
		if old, ok := p.ranges[high(1)]; !ok || old.End == 0 { // records are unordered
			p.ranges[high(1)] = r
		}
	case recorder.ModelType:
		m := p.model(high(0))
		m.tasks, m.version = int(low(1)), low(2)
	case recorder.NodeType:
		if at := low(1); at < recorder.MostNodes { // a damaged file may have any value
			p.model(high(0)).nodes[at] = node{timeline.Node{
				Kind: observe.Kind(b[1]), Direction: observe.Direction(b[2]), Memory: observe.Memory(b[3]),
				Segments: high(3), Bytes: word(2) & (1<<recorder.NodeBytes - 1), After: int(low(3)) - 1,
				Piece: int(word(2)>>recorder.NodeBytes) - 1,
			}, int32(high(1))}
		}
	case recorder.PartType:
		p.inside = append(p.inside, inside{of: taskKey{stream, low(1)}, model: uint32(word(3) >> recorder.PartTicks),
			first: high(1), count: low(0) >> 8, began: int64(word(2)),
			ended: int64(word(2)) + int64(word(3)&(1<<recorder.PartTicks-1))})
	case recorder.CoreType:
		p.cores = append(p.cores, coreWork{
			CoreWork: timeline.CoreWork{
				Core: int(binary.LittleEndian.Uint16(b[1:])), First: high(1), Blocks: uint32(word(3) >> 40),
			},
			taskKey: taskKey{stream, low(1)}, began: int64(word(2)), ticks: int64(word(3) & recorder.MostTicks),
		})
	case recorder.KernelType:
		core := int(binary.LittleEndian.Uint16(b[1:]))
		p.kernels[coreKey{taskKey{stream, low(1)}, core, int64(word(2))}] = uint16(high(1))
	case recorder.ClockType:
		p.clock = append(p.clock, moment{int64(word(1)), int64(word(2))})
	}
}

// model returns the model with a number, and adds it if necessary.
func (p *process) model(number uint32) *modelOf {
	m := p.models[number]
	if m == nil {
		m = &modelOf{nodes: map[uint32]node{}}
		p.models[number] = m
	}
	return m
}

// joinTexts joins the parts of texts.
func (p *process) joinTexts() {
	for k, parts := range p.parts {
		text := ""
		for i := range 256 {
			part, ok := parts[uint8(i)]
			text += part
			if !ok || len(part) < recorder.RecordBytes-8 {
				break
			}
		}
		p.texts[k] = text
	}
	p.parts = nil
}
