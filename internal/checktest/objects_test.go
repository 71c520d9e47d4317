package checktest

import (
	"runtime"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// kind is the direction of a copy.
func (r *run) kind(v move) abi.MemcpyKind {
	switch to, from := r.p.buffers[v.dst].onHost(), r.p.buffers[v.src].onHost(); {
	case to && from:
		return abi.MemcpyHostToHost
	case to:
		return abi.MemcpyDeviceToHost
	case from:
		return abi.MemcpyHostToDevice
	}
	return abi.MemcpyDeviceToDevice
}

func (r *run) location(buf int) abi.MemLocation {
	if b := r.p.buffers[buf]; !b.onHost() {
		return abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(b.dev)}
	}
	return abi.MemLocation{Type: abi.MemLocationTypeHost}
}

func (r *run) batch(h *hostThread, s *step, stream core.Handle) *core.Error {
	var dsts, srcs []core.Addr
	var sizes, starts []uint64
	var attrs []abi.MemcpyBatchAttr
	for i, v := range s.moves {
		dsts, srcs, sizes = append(dsts, r.at(v.dst, v.to)), append(srcs, r.at(v.src, v.from)),
			append(sizes, uint64(v.n))
		a := abi.MemcpyBatchAttr{DstLoc: r.location(v.dst), SrcLoc: r.location(v.src)}
		if i == 0 || attrs[len(attrs)-1] != a {
			attrs, starts = append(attrs, a), append(starts, uint64(i))
		}
	}
	n, k, at := uint64(len(sizes)), uint64(len(attrs)), uint64(0)
	switch {
	case s.op == batchNow && s.v2:
		return transfer.MemcpyBatchV2(h.Thread, &dsts[0], &sizes[0], &srcs[0], &sizes[0], n, &attrs[0], &starts[0], k)
	case s.op == batchNow:
		return transfer.MemcpyBatch(h.Thread, &dsts[0], &sizes[0], &srcs[0], &sizes[0], n, &attrs[0], &starts[0], k,
			&at)
	case s.v2:
		return transfer.MemcpyBatchAsyncV2(h.Thread, &dsts[0], &sizes[0], &srcs[0], &sizes[0], n, &attrs[0], &starts[0],
			k, stream)
	}
	return transfer.MemcpyBatchAsync(h.Thread, &dsts[0], &sizes[0], &srcs[0], &sizes[0], n, &attrs[0], &starts[0], k,
		&at, stream)
}

func (r *run) newStream(h *hostThread, i int) *core.Error {
	plan := r.p.streams[i]
	if !plan.isDefault {
		if err := h.CreateStream(&r.streams[i]); err != nil {
			return err
		}
	}
	if err := h.StreamGetId(r.streams[i], &r.ids[i]); err != nil {
		return err
	}
	if plan.service != callbacks {
		return nil
	}
	t := r.reports[plan.dev]
	if err := h.SubscribeReport(t.id, r.streams[i]); err != nil {
		return err
	}
	if t.streams++; t.streams == 1 {
		t.ended = make(chan struct{})
		go r.serve(t, plan.dev)
	}
	return nil
}

// serve runs callbacks until nobody subscribes the thread any more.
func (r *run) serve(t *reportThread, dev int) {
	defer close(t.ended)
	th := r.rt.NewThread(uint32(t.id))
	defer th.Close()
	th.SetPthread(t.id)
	if err := th.SetDevice(int32(dev)); err != nil {
		panic(err)
	}
	for th.ProcessReport(-1) == nil {
	}
}

func (r *run) destroyStream(h *hostThread, i int) *core.Error {
	if plan := r.p.streams[i]; plan.service == callbacks {
		t := r.reports[plan.dev]
		if err := h.UnSubscribeReport(t.id, r.streams[i]); err != nil {
			return err
		}
		if t.streams--; t.streams == 0 {
			<-t.ended
		}
	}
	if r.p.streams[i].isDefault {
		return nil // it goes with its context
	}
	return h.DestroyStream(r.streams[i])
}

func (r *run) newEvent(h *hostThread, i int) *core.Error {
	const flags = abi.EventSync | abi.EventCaptureStreamProgress | abi.EventTimeLine
	switch e := &r.events[i]; r.p.events[i].kind {
	case notifyEvent:
		return signal.CreateNotify(h.Thread, e, 0)
	case valueEvent:
		if err := memory.Malloc(h.Thread, &r.words[i], 8, abi.MemMallocHugeFirst); err != nil {
			return err
		}
		return transfer.Memset(h.Thread, r.words[i], 8, 0, 8)
	case timedEvent:
		return h.CreateEvent(e)
	case stateEvent:
		return h.CreateEventWithFlag(e, flags)
	default:
		return h.CreateEventExWithFlag(e, flags)
	}
}

func (r *run) destroyEvent(h *hostThread, i int) *core.Error {
	switch r.p.events[i].kind {
	case notifyEvent:
		return signal.DestroyNotify(h.Thread, r.events[i])
	case valueEvent:
		return memory.Free(h.Thread, r.words[i])
	}
	return h.DestroyEvent(r.events[i])
}

func (r *run) record(h *hostThread, i int, stream core.Handle) *core.Error {
	switch r.p.events[i].kind {
	case notifyEvent:
		return signal.RecordNotify(h.Thread, r.events[i], stream)
	case valueEvent:
		return signal.ValueWrite(h.Thread, r.words[i], 1, 0, stream)
	}
	return h.RecordEvent(r.events[i], stream)
}

func (r *run) wait(h *hostThread, i int, stream core.Handle) *core.Error {
	const equal = 1
	switch r.p.events[i].kind {
	case notifyEvent:
		return signal.WaitAndResetNotify(h.Thread, r.events[i], stream, 0)
	case valueEvent:
		return signal.ValueWait(h.Thread, r.words[i], 1, equal, stream)
	}
	return h.StreamWaitEvent(stream, r.events[i])
}

func (r *run) alloc(h *hostThread, i int) *core.Error {
	if err := r.allocate(h, i); err != nil {
		return err
	}
	r.views[i] = r.addrs[i]
	if r.guard != nil {
		if at, ok := r.guard.EngineView(r.addrs[i]); ok {
			r.views[i] = at
		}
	}
	return nil
}

func (r *run) allocate(h *hostThread, i int) *core.Error {
	b, at := r.p.buffers[i], &r.addrs[i]
	switch b.place {
	case onDevice, table:
		return memory.Malloc(h.Thread, at, uint64(b.size), abi.MemMallocHugeFirst)
	case pinned:
		return memory.MallocHost(h.Thread, at, uint64(b.size))
	}
	m, err := unix.Mmap(-1, 0, b.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	r.maps[i], *at = m, addrOf(m)
	if b.place == pageable {
		return nil
	}
	return memory.HostRegisterV2(h.Thread, *at, uint64(b.size), abi.HostRegPinned)
}

// free frees a buffer, after a look at what is in it.
func (r *run) free(h *hostThread, step, i int) *core.Error {
	b, at := r.p.buffers[i], r.addrs[i]
	if want := r.want[seen{step, -1}]; want != nil {
		got := make([]byte, b.size)
		if b.onHost() {
			r.access(h.Thread, step, i, 0, b.size, false, func(mem []byte) { copy(got, mem) })
		} else if err := transfer.Memcpy(h.Thread, addrOf(got), uint64(b.size), at, uint64(b.size),
			abi.MemcpyDeviceToHost); err != nil {
			return err
		}
		r.compare(step, got, want)
		runtime.KeepAlive(got)
	}
	r.gone[i].Store(true)
	switch b.place {
	case onDevice, table:
		return memory.Free(h.Thread, at)
	case pinned:
		return memory.FreeHost(h.Thread, at)
	case registered:
		return memory.HostUnregister(h.Thread, at)
	}
	return nil // it is unmapped at the end
}
