package sample

import (
	"math/rand/v2"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// Serving returns a run of about n tasks of all kinds: three threads, each with a stream for uploads and one for
// downloads, events between them, batches, fills, functions, some pageable copies and a few failures. The same n and
// seed give the same run.
func Serving(n int, seed uint64) *timeline.Run {
	const workers = 3
	b, random := New(), rand.New(rand.NewPCG(seed, 1))
	b.run.Program = []string{"python3", "serve.py", "--workers", "3"}
	b.run.Processes[0].Command = b.run.Program
	var threads, up, down [workers]int
	for i := range workers {
		threads[i] = b.Thread([]string{"python3", "worker-1", "worker-2"}[i])
		up[i], down[i] = b.Stream(0), b.Stream(0)
		b.Call("aclrtSetDevice", threads[i], 40_000)
		b.Call("aclrtMallocHost", threads[i], 12_000)
		b.Call("aclrtMalloc", threads[i], 7_000)
	}
	size := func() uint64 { return uint64(256) << random.IntN(14) }
	for len(b.run.Tasks) < n {
		i := 0
		for j := range workers { // the thread that is furthest behind continues
			if b.now[j] < b.now[i] {
				i = j
			}
		}
		t := threads[i]
		switch random.IntN(8) {
		case 0:
			b.Batch(t, up[i], observe.HostToDevice, 1+random.IntN(64), size()*8)
		case 1:
			b.Copy(t, up[i], observe.HostToDevice, observe.Pageable, size())
		default:
			for range 1 + random.IntN(4) {
				b.Copy(t, up[i], observe.HostToDevice, observe.Pinned, size())
			}
		}
		b.Wait(t, down[i], b.Record(t, up[i]))
		if random.IntN(6) == 0 {
			b.Fill(t, down[i], size())
		}
		b.Copy(t, down[i], observe.DeviceToDevice, observe.NoHostMemory, size()*4)
		b.Copy(t, down[i], observe.DeviceToHost, observe.Pinned, size())
		if random.IntN(12) == 0 {
			b.Function(t, down[i])
		}
		if random.IntN(4) == 0 {
			b.Sync(t, down[i])
		}
		if random.IntN(200) == 0 {
			failed := &b.run.Tasks[b.Copy(t, down[i], observe.DeviceToHost, observe.Pinned, 64)]
			failed.Failed, failed.Code = true, 507013
			b.run.Calls[b.Sync(t, down[i])].Code = 507013
		}
		b.Work(t, int64(random.IntN(6_000)))
	}
	for i, t := range threads {
		b.Sync(t, up[i])
		b.SyncDevice(t, 0)
	}
	b.Call("aclFinalize", threads[0], 30_000)
	return b.Run()
}

// Findings adds some findings of the checker to a run with at least two tasks.
func Findings(run *timeline.Run) {
	run.Checked = true
	add := func(rule, text, remedy string, tasks ...int) {
		const severity = "error"
		f := timeline.Finding{Rule: rule, Severity: severity, Text: text, Remedy: remedy, Tasks: tasks,
			Thread: timeline.None}
		for _, i := range tasks {
			f.Time, f.Thread = max(f.Time, run.Tasks[i].Submit), run.Tasks[i].Thread
		}
		f.Places = []timeline.Place{{Role: "submitted", At: "src/app.c:30 in load"}, {Role: "allocated",
			At: "src/app.c:12 in main"}}
		f.Report = severity + ": " + rule + ": " + text + "\n  submitted by thread 4242\n    #0 load src/app.c:30 " +
			"(app)\n"
		run.Findings = append(run.Findings, f)
	}
	last := len(run.Tasks) - 1
	add("stream-race", "two tasks write the same bytes and nothing orders them",
		"Record an event after the first task and let the other stream wait for it.", last/3, last/3+1)
	add("host-read-in-flight", "the host reads a destination before the copy into it is known to be complete",
		"Synchronise the stream before the read.", last/2)
	add("leak", "4096 bytes of device memory are never freed", "Free the memory before aclFinalize.")
	run.Findings[2].Time = run.Duration
}
