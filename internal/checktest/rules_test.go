package checktest

import (
	"strings"
	"testing"
)

// TestOracle proves the oracle's rules one by one, on programs of a few calls: which of them order the two copies that
// write the same bytes, b0 on stream 0 and then on stream 1, or the copy on stream 0 and the host.
func TestOracle(t *testing.T) {
	first := step{op: copyAsync, stream: 0, moves: []move{{dst: 0, src: 1, n: 64}}}
	second := step{op: copyAsync, stream: 1, moves: []move{{dst: 0, to: 32, src: 1, n: 64}}}
	apart := step{op: copyAsync, stream: 1, moves: []move{{dst: 0, to: 64, src: 1, n: 64}}}
	reads := step{op: touchHost, touches: []touch{{buf: 2, n: 1}}}
	writes := step{op: touchHost, touches: []touch{{buf: 2, n: 1, write: true}}}
	in := step{op: copyAsync, stream: 0, moves: []move{{dst: 0, src: 2, n: 64}}}
	out := step{op: copyAsync, stream: 0, moves: []move{{dst: 2, src: 0, n: 64}}}
	on := func(o op, stream, event int) step { return step{op: o, stream: stream, event: event} }
	const timed, state, ex = 0, 1, 2
	function := step{op: launch, stream: 0, touches: []touch{{buf: 2, n: 1, write: true}}}
	callback := step{op: post, stream: 0, touches: []touch{{buf: 2, n: 1, write: true}}}
	elsewhere := step{op: copyAsync, stream: 1, moves: []move{{dst: 0, src: 2, n: 64}}}
	for _, tt := range []struct {
		name  string
		steps []step
		pairs int
		err   string
	}{
		{"two streams", []step{first, second}, 1, ""},
		{"two streams, other bytes", []step{first, apart}, 0, ""},
		{"one stream", []step{first, first}, 0, ""},
		{"synchronised stream", []step{first, on(syncStream, 0, 0), second}, 0, ""},
		{"synchronised other stream", []step{first, on(syncStream, 1, 0), second}, 1, ""},
		{"queried stream", []step{first, on(queryStream, 0, 0), second}, 0, ""},
		{"synchronised device", []step{first, {op: syncDevice, dev: 0}, second}, 0, ""},
		{"synchronised other device", []step{first, {op: syncDevice, dev: 1}, second}, 1, ""},
		{"timed event", []step{first, on(record, 0, timed), on(wait, 1, timed), second}, 0, ""},
		{"ex event", []step{first, on(record, 0, ex), on(wait, 1, ex), second}, 0, ""},
		{"state event", []step{first, on(record, 0, state), on(wait, 1, state), second}, 0, ""},
		{"event recorded too early", []step{on(record, 0, ex), first, on(wait, 1, ex), second}, 1, ""},
		{"event waited for too late", []step{first, on(record, 0, ex), second, on(wait, 1, ex)}, 1, ""},
		{"event recorded again on the other stream", []step{first, on(record, 0, ex), on(record, 1, ex),
			on(wait, 1, ex), second}, 1, ""},
		{"ex event without a record", []step{first, on(wait, 1, ex), second}, 1, ""},
		{"timed event without a record", []step{first, on(wait, 1, timed), second}, 0, "refused"},
		{"state event without a record", []step{first, on(wait, 1, state), second}, 0, "never ends"},
		{"state event recorded after the wait", []step{on(wait, 1, state), second, first, on(record, 0, state)}, 0, ""},
		{"state event that waits for itself", []step{on(wait, 1, state), on(syncStream, 1, 0), on(record, 0, state)},
			0, "never ends"},
		{"state event that is still set", []step{on(record, 2, state), first, on(record, 0, state), on(wait, 1, state),
			second}, 1, ""},
		{"state event that was reset", []step{on(record, 1, state), on(reset, 1, state), first, on(record, 0, state),
			on(wait, 1, state), second}, 0, "may never end"},
		{"state event that was reset before", []step{on(record, 1, state), on(reset, 1, state), on(syncStream, 1, 0),
			first, on(record, 0, state), on(wait, 1, state), second}, 0, ""},
		{"synchronised event", []step{first, on(record, 0, timed), on(syncEvent, 0, timed), second}, 0, ""},
		{"queried event", []step{first, on(record, 0, ex), on(queryEvent, 0, ex), second}, 0, ""},
		{"a chain over a third stream", []step{first, on(record, 0, ex), on(wait, 2, ex), on(record, 2, timed),
			on(wait, 1, timed), second}, 0, ""},
		{"host reads a destination", []step{out, reads}, 1, ""},
		{"host writes a destination", []step{out, writes}, 1, ""},
		{"host writes a source", []step{in, writes}, 1, ""},
		{"host reads a source", []step{in, reads}, 0, ""},
		{"host reads what it has waited for", []step{out, on(syncStream, 0, 0), reads}, 0, ""},
		{"host writes first", []step{writes, in}, 0, ""},
		{"freed", []step{in, {op: free, buf: 0}}, 1, ""},
		{"freed when done", []step{in, on(syncStream, 0, 0), {op: free, buf: 0}}, 0, ""},
		{"destroyed", []step{in, on(destroyStream, 0, 0)}, 1, ""},
		{"destroyed when done", []step{in, on(syncStream, 0, 0), on(destroyStream, 0, 0)}, 0, ""},
		{"copied now", []step{first, {op: copyNow, moves: []move{{dst: 2, src: 0, n: 1}}}}, 1, ""},
		{"filled at once, although asynchronous", []step{out, {op: fillAsync, stream: 0, buf: 2, n: 1}}, 1, ""},
		{"function in its stream", []step{function, in}, 0, ""},
		{"function and another stream", []step{function, elsewhere}, 1, ""},
		{"function after a copy of its stream", []step{out, function}, 0, ""},
		{"synchronised function", []step{function, on(syncStream, 0, 0), elsewhere}, 0, ""},
		{"callback beside its stream", []step{callback, in}, 1, ""},
		{"callback that synchronising does not wait for", []step{callback, on(syncStream, 0, 0), elsewhere}, 1, ""},
		{"callback that was awaited", []step{callback, {op: await, target: 0}, elsewhere}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &program{descSize: 32, devices: 2, threads: 1, steps: tt.steps,
				streams: []streamPlan{{}, {}, {}},
				events:  []eventPlan{{kind: timedEvent}, {kind: stateEvent}, {kind: exEvent}},
				buffers: []bufferPlan{{onDevice, 0, 128}, {onDevice, 0, 128}, {pinned, 0, 128}},
			}
			pairs, err := judge(p)
			switch {
			case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Fatalf("error %v, want %q", err, tt.err)
			case len(pairs) != tt.pairs:
				t.Errorf("%d pairs, want %d: %v", len(pairs), tt.pairs, pairs)
			}
		})
	}
}
