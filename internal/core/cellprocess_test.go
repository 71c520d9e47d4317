package core

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/share"
)

// Cells between processes. The other process is this test again, as a peer: it imports what it is given, and does what lines of
// its standard input say.

const peerKeys = "ROPEWAY_TEST_CELL_PEER" // two notifies and an event

// TestCellPeer is what the other process runs.
func TestCellPeer(t *testing.T) {
	keys := strings.Fields(os.Getenv(peerKeys))
	if len(keys) != 3 {
		t.Skip("not another process")
	}
	m := newMemTest(t, "A2", "")
	var ping, pong, event Handle
	for i, h := range []*Handle{&ping, &pong} {
		key := append([]byte(keys[i]), 0)
		m.ok(m.th.NotifyImportByKey(h, &key[0], 0))
	}
	var block abi.IpcEventHandle
	if _, err := hex.Decode(block.Reserved[:], []byte(keys[2])); err != nil {
		t.Fatal(err)
	}
	m.ok(m.th.IpcOpenEventHandle(block, &event))
	s := m.stream(m.th)
	gate := make(chan struct{})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word, number, _ := strings.Cut(in.Text(), " "); word {
		case "echo": // each ping gets a pong
			var n int
			fmt.Sscan(number, &n) //nolint:errcheck // 0 will be noticed
			for range n {
				m.ok(m.th.WaitAndResetNotify(ping, s, 0))
				m.ok(m.th.RecordNotify(pong, s))
			}
			m.ok(m.th.SynchronizeStream(s))
		case "hold": // what follows on the stream waits
			m.ok(m.th.LaunchHostFunc(s, func(Addr) { <-gate }, 0))
		case "open":
			close(gate)
			m.ok(m.th.SynchronizeStream(s))
			gate = make(chan struct{})
		case "record":
			m.ok(m.th.RecordEvent(event, s))
		case "await": // for the host, and for a stream
			m.ok(m.th.StreamWaitEvent(s, event))
			m.ok(m.th.SynchronizeStream(s))
			m.ok(m.th.SynchronizeEvent(event))
		}
		fmt.Println("done:", in.Text())
	}
}

// peer is the other process.
type peer struct {
	m   *memTest
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (m *memTest) peer(keys ...string) *peer {
	m.Helper()
	p := &peer{m: m, cmd: exec.Command(os.Args[0], "-test.run=^TestCellPeer$")}
	p.cmd.Env = append(os.Environ(), peerKeys+"="+strings.Join(keys, " "))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		m.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		m.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	m.Cleanup(p.kill)
	return p
}

// kill ends the other process at once.
func (p *peer) kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	p.cmd.Wait()         //nolint:errcheck // it was killed
}

// say gives the other process something to do; it is done when it has said so.
func (p *peer) say(line string) { fmt.Fprintln(p.in, line) }

func (p *peer) done(line string) {
	p.m.Helper()
	p.m.within(line, func() {
		for p.out.Scan() {
			if p.out.Text() == "done: "+line {
				return
			}
			fmt.Fprintln(os.Stderr, p.out.Text())
		}
		p.m.Errorf("the other process ended before %q was done", line)
	})
}

func (p *peer) do(line string) { p.m.Helper(); p.say(line); p.done(line) }

// sharedCells are two notifies and an event that others may have.
func (m *memTest) sharedCells() (ping, pong, event Handle, keys []string) {
	m.Helper()
	for _, n := range []*Handle{&ping, &pong} {
		*n = m.notify()
		var key [65]byte
		m.ok(m.th.NotifyGetExportKey(*n, &key[0], 65, abi.NotifyExportFlagDisablePidValidation))
		text, _, _ := strings.Cut(string(key[:]), "\x00")
		keys = append(keys, text)
	}
	m.ok(m.th.CreateEventExWithFlag(&event, abi.EventIpc))
	var block abi.IpcEventHandle
	m.ok(m.th.IpcGetEventHandle(event, &block))
	return ping, pong, event, append(keys, hex.EncodeToString(block.Reserved[:]))
}

// TestCellProcesses: streams of two processes signal each other.
func TestCellProcesses(t *testing.T) {
	m := newMemTest(t, "A2", "")
	ping, pong, event, keys := m.sharedCells()
	p := m.peer(keys...)
	s := m.stream(m.th)

	const rounds = 300
	p.say(fmt.Sprint("echo ", rounds))
	for range rounds {
		m.ok(m.th.RecordNotify(ping, s))
		m.ok(m.th.WaitAndResetNotify(pong, s, 0))
	}
	m.within("echo", func() { m.ok(m.th.SynchronizeStream(s)) })
	p.done(fmt.Sprint("echo ", rounds))

	p.do("hold") // the other one's record, of which waits here learn when it was queued
	p.do("record")
	if m.isDone(event) {
		t.Error("the record is not done")
	}
	m.ok(m.th.StreamWaitEvent(s, event))
	m.want(m.th.SynchronizeStreamWithTimeout(s, 15), abi.ErrRTStreamSyncTimeout)
	p.do("open")
	m.within("event", func() {
		m.ok(m.th.SynchronizeStream(s))
		m.ok(m.th.SynchronizeEvent(event))
	})
	if !m.isDone(event) {
		t.Error("the record is done")
	}

	gate := make(chan struct{}) // and the other way round
	m.ok(m.th.LaunchHostFunc(s, func(Addr) { <-gate }, 0))
	m.ok(m.th.RecordEvent(event, s))
	p.say("await")
	close(gate)
	p.done("await")
	p.in.Close() //nolint:errcheck // it was written to
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func (m *memTest) isDone(event Handle) bool {
	m.Helper()
	var status abi.EventRecordedStatus
	m.ok(m.th.QueryEventStatus(event, &status))
	return status == abi.EventRecordedStatusComplete
}

// TestCellProcessKilled: a process that is killed takes its records with it: who waits for one goes on, and is told.
func TestCellProcessKilled(t *testing.T) {
	m := newMemTest(t, "A2", "")
	before := openFiles(t)
	for range 3 {
		ping, pong, event, keys := m.sharedCells()
		p := m.peer(keys...)
		s := m.stream(m.th)
		p.do("hold")
		p.do("record")
		m.ok(m.th.StreamWaitEvent(s, event))
		m.want(m.th.SynchronizeStreamWithTimeout(s, 15), abi.ErrRTStreamSyncTimeout)
		p.kill()
		m.within("the wait", func() { m.ok(m.th.SynchronizeStream(s)) })
		m.want(m.th.SynchronizeEvent(event), abi.ErrRTStreamAbort)
		m.ok(m.th.RecordEvent(event, s)) // the event, and notifies, can be used as before
		m.ok(m.th.SynchronizeEvent(event))
		m.ok(m.th.RecordNotify(ping, s))
		m.ok(m.th.WaitAndResetNotify(ping, s, 0))
		m.ok(m.th.SynchronizeStream(s))
		for _, err := range []*Error{m.th.DestroyNotify(ping), m.th.DestroyNotify(pong), m.th.DestroyEvent(event), m.th.DestroyStream(s)} {
			m.ok(err)
		}
	}
	for wait := time.Now().Add(10 * time.Second); openFiles(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(wait) {
			t.Fatalf("%d files are open, %d were", openFiles(t), before)
		}
	}
}

// TestCellProcessNotReaped: a process that was killed has ended, although its parent, which may be the one that waits, has not asked for its end.
func TestCellProcessNotReaped(t *testing.T) {
	m := newMemTest(t, "A2", "")
	_, _, event, keys := m.sharedCells()
	p := m.peer(keys...)
	s := m.stream(m.th)
	p.do("hold")
	p.do("record")
	m.ok(m.th.StreamWaitEvent(s, event))
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.within("the wait", func() { m.ok(m.th.SynchronizeStream(s)) })
	m.want(m.th.SynchronizeEvent(event), abi.ErrRTStreamAbort)
}

// TestCellFinalize: aclFinalize ends what the process shares. Who has it keeps it, and it may be shared again.
func TestCellFinalize(t *testing.T) {
	m := newMemTest(t, "A2", "")
	o := newMemTest(t, "A2", "")
	m.ok(m.th.Init(nil))
	notify, _, event, keys := m.sharedCells()
	text := append([]byte(keys[0]), 0)
	var block abi.IpcEventHandle
	if _, err := hex.Decode(block.Reserved[:], []byte(keys[2])); err != nil {
		t.Fatal(err)
	}
	var n, e, other Handle
	o.ok(o.th.NotifyImportByKey(&n, &text[0], 0))
	o.ok(o.th.IpcOpenEventHandle(block, &e))

	m.ok(m.th.Finalize())
	if left := m.rt.broker.Count(); left != 0 {
		t.Errorf("%d things are still shared", left)
	}
	o.want(o.th.NotifyImportByKey(&other, &text[0], 0), abi.ErrRTParamInvalid)
	o.want(o.th.IpcOpenEventHandle(block, &other), abi.ErrRTParamInvalid)
	pid := int32(os.Getpid())
	m.want(m.th.NotifySetImportPid(notify, &pid, 1), abi.ErrRTParamInvalid)

	s, z := m.stream(m.th), o.stream(o.th)
	m.ok(m.th.RecordNotify(notify, s))
	m.ok(m.th.RecordEvent(event, s))
	m.ok(m.th.SynchronizeStream(s))
	o.ok(o.th.WaitAndResetNotify(n, z, 0))
	o.ok(o.th.StreamWaitEvent(z, e))
	o.within("what was imported", func() { o.ok(o.th.SynchronizeStream(z)) })

	m.ok(m.th.Init(nil))
	var key [65]byte
	m.ok(m.th.NotifyGetExportKey(notify, &key[0], 65, abi.NotifyExportFlagDisablePidValidation))
	o.ok(o.th.NotifyImportByKey(&other, &key[0], 0))
	m.ok(m.th.IpcGetEventHandle(event, &block))
	o.ok(o.th.IpcOpenEventHandle(block, &other))
}

// TestCellImportGone: what belongs to a process that has ended cannot be had any more.
func TestCellImportGone(t *testing.T) {
	m := newMemTest(t, "A2", "")
	o := newMemTest(t, "A2", "")
	_, _, _, keys := o.sharedCells()
	o.rt.broker.Close() // as the end of the process does
	var n Handle
	text := append([]byte(keys[0]), 0)
	m.want(m.th.NotifyImportByKey(&n, &text[0], 0), abi.ErrRTParamInvalid)
	var block abi.IpcEventHandle
	if _, err := hex.Decode(block.Reserved[:], []byte(keys[2])); err != nil {
		t.Fatal(err)
	}
	m.want(m.th.IpcOpenEventHandle(block, &n), abi.ErrRTParamInvalid)
	if k, ok := share.FromBlock(block.Reserved[:]); !ok || m.rt.broker.Owns(k) {
		t.Error("the key is of another process")
	}
}
