package signal

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/process"
	"ropeway/internal/share"
	"ropeway/internal/testenv"
)

// Cells between processes. The other process is this test again, as a peer: it imports what it is given, and does
// what lines of its standard input say.

const peerKeys = "ROPEWAY_TEST_CELL_PEER" // two notifies and an event

// TestCellPeer is what the other process runs.
func TestCellPeer(t *testing.T) {
	keys := strings.Fields(os.Getenv(peerKeys))
	if len(keys) != 3 {
		t.Skip("not another process")
	}
	m := coretest.NewMachine(t, "A2", "")
	var ping, pong, event core.Handle
	for i, h := range []*core.Handle{&ping, &pong} {
		key := append([]byte(keys[i]), 0)
		m.OK(NotifyImportByKey(m.Th, h, &key[0], 0))
	}
	var block abi.IpcEventHandle
	if _, err := hex.Decode(block.Reserved[:], []byte(keys[2])); err != nil {
		t.Fatal(err)
	}
	m.OK(IpcOpenEventHandle(m.Th, block, &event))
	s := m.Stream(m.Th)
	gate := make(chan struct{})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word, number, _ := strings.Cut(in.Text(), " "); word {
		case "echo": // each ping gets a pong
			var n int
			fmt.Sscan(number, &n) //nolint:errcheck // 0 will be noticed
			for range n {
				m.OK(WaitAndResetNotify(m.Th, ping, s, 0))
				m.OK(RecordNotify(m.Th, pong, s))
			}
			m.OK(m.Th.SynchronizeStream(s))
		case "hold": // what follows on the stream waits
			m.OK(m.Th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
		case "open":
			close(gate)
			m.OK(m.Th.SynchronizeStream(s))
			gate = make(chan struct{})
		case "record":
			m.OK(m.Th.RecordEvent(event, s))
		case "await": // for the host, and for a stream
			m.OK(m.Th.StreamWaitEvent(s, event))
			m.OK(m.Th.SynchronizeStream(s))
			m.OK(m.Th.SynchronizeEvent(event))
		}
		fmt.Println("done:", in.Text())
	}
}

// peer is the other process.
type peer struct {
	m   *coretest.Machine
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func newPeer(m *coretest.Machine, keys ...string) *peer {
	m.Helper()
	p := &peer{m: m, cmd: exec.Command(os.Args[0], "-test.run=^TestCellPeer$")}
	p.cmd.Env = append(os.Environ(), peerKeys+"="+strings.Join(keys, " "))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	testenv.OK(m, err)
	out, err := p.cmd.StdoutPipe()
	testenv.OK(m, err)
	testenv.OK(m, p.cmd.Start())
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
	p.m.Within(line, func() {
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
func sharedCells(m *coretest.Machine) (ping, pong, event core.Handle, keys []string) {
	m.Helper()
	for _, n := range []*core.Handle{&ping, &pong} {
		*n = newNotify(m)
		var key [65]byte
		m.OK(NotifyGetExportKey(m.Th, *n, &key[0], 65, abi.NotifyExportFlagDisablePidValidation))
		text, _, _ := strings.Cut(string(key[:]), "\x00")
		keys = append(keys, text)
	}
	m.OK(m.Th.CreateEventExWithFlag(&event, abi.EventIpc))
	var block abi.IpcEventHandle
	m.OK(IpcGetEventHandle(m.Th, event, &block))
	return ping, pong, event, append(keys, hex.EncodeToString(block.Reserved[:]))
}

// TestCellProcesses: streams of two processes signal each other.
func TestCellProcesses(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	ping, pong, event, keys := sharedCells(m)
	p := newPeer(m, keys...)
	s := m.Stream(m.Th)

	const rounds = 300
	p.say(fmt.Sprint("echo ", rounds))
	for range rounds {
		m.OK(RecordNotify(m.Th, ping, s))
		m.OK(WaitAndResetNotify(m.Th, pong, s, 0))
	}
	m.Within("echo", func() { m.OK(m.Th.SynchronizeStream(s)) })
	p.done(fmt.Sprint("echo ", rounds))

	p.do("hold") // the other one's record, of which waits here learn when it was queued
	p.do("record")
	if isDone(m, event) {
		t.Error("the record is not done")
	}
	m.OK(m.Th.StreamWaitEvent(s, event))
	m.Want(m.Th.SynchronizeStreamWithTimeout(s, 15), abi.ErrRTStreamSyncTimeout)
	p.do("open")
	m.Within("event", func() {
		m.OK(m.Th.SynchronizeStream(s))
		m.OK(m.Th.SynchronizeEvent(event))
	})
	if !isDone(m, event) {
		t.Error("the record is done")
	}

	gate := make(chan struct{}) // and the other way round
	m.OK(m.Th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
	m.OK(m.Th.RecordEvent(event, s))
	p.say("await")
	close(gate)
	p.done("await")
	p.in.Close() //nolint:errcheck // it was written to
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func isDone(m *coretest.Machine, event core.Handle) bool {
	m.Helper()
	var status abi.EventRecordedStatus
	m.OK(m.Th.QueryEventStatus(event, &status))
	return status == abi.EventRecordedStatusComplete
}

// TestCellProcessKilled: the records of a process that is killed are dropped: a wait for one ends, with an error.
func TestCellProcessKilled(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	before := coretest.OpenFiles(t)
	for range 3 {
		ping, pong, event, keys := sharedCells(m)
		p := newPeer(m, keys...)
		s := m.Stream(m.Th)
		p.do("hold")
		p.do("record")
		m.OK(m.Th.StreamWaitEvent(s, event))
		m.Want(m.Th.SynchronizeStreamWithTimeout(s, 15), abi.ErrRTStreamSyncTimeout)
		p.kill()
		m.Within("the wait", func() { m.OK(m.Th.SynchronizeStream(s)) })
		m.Want(m.Th.SynchronizeEvent(event), abi.ErrRTStreamAbort)
		m.OK(m.Th.RecordEvent(event, s)) // the event, and notifies, can be used as before
		m.OK(m.Th.SynchronizeEvent(event))
		m.OK(RecordNotify(m.Th, ping, s))
		m.OK(WaitAndResetNotify(m.Th, ping, s, 0))
		m.OK(m.Th.SynchronizeStream(s))
		for _, err := range []*core.Error{DestroyNotify(m.Th, ping), DestroyNotify(m.Th, pong),
			m.Th.DestroyEvent(event), m.Th.DestroyStream(s)} {
			m.OK(err)
		}
	}
	testenv.Eventually(t, "its files are closed", func() bool { return coretest.OpenFiles(t) <= before })
}

// TestCellProcessNotReaped: a process that was killed has ended, although its parent, which may be the one that
// waits, has not asked for its end.
func TestCellProcessNotReaped(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	_, _, event, keys := sharedCells(m)
	p := newPeer(m, keys...)
	s := m.Stream(m.Th)
	p.do("hold")
	p.do("record")
	m.OK(m.Th.StreamWaitEvent(s, event))
	testenv.OK(t, p.cmd.Process.Kill())
	m.Within("the wait", func() { m.OK(m.Th.SynchronizeStream(s)) })
	m.Want(m.Th.SynchronizeEvent(event), abi.ErrRTStreamAbort)
}

// TestCellFinalize: aclFinalize ends what the process shares. Processes that have it keep it, and it may be shared
// again.
func TestCellFinalize(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	o := coretest.NewMachine(t, "A2", "")
	m.OK(process.Init(m.Th, nil))
	notify, _, event, keys := sharedCells(m)
	text := append([]byte(keys[0]), 0)
	var block abi.IpcEventHandle
	if _, err := hex.Decode(block.Reserved[:], []byte(keys[2])); err != nil {
		t.Fatal(err)
	}
	var n, e, other core.Handle
	o.OK(NotifyImportByKey(o.Th, &n, &text[0], 0))
	o.OK(IpcOpenEventHandle(o.Th, block, &e))

	m.OK(process.Finalize(m.Th))
	if left := m.Runtime.Broker.Count(); left != 0 {
		t.Errorf("%d things are still shared", left)
	}
	o.Want(NotifyImportByKey(o.Th, &other, &text[0], 0), abi.ErrRTParamInvalid)
	o.Want(IpcOpenEventHandle(o.Th, block, &other), abi.ErrRTParamInvalid)
	pid := int32(os.Getpid())
	m.Want(NotifySetImportPid(m.Th, notify, &pid, 1), abi.ErrRTParamInvalid)

	s, z := m.Stream(m.Th), o.Stream(o.Th)
	m.OK(RecordNotify(m.Th, notify, s))
	m.OK(m.Th.RecordEvent(event, s))
	m.OK(m.Th.SynchronizeStream(s))
	o.OK(WaitAndResetNotify(o.Th, n, z, 0))
	o.OK(o.Th.StreamWaitEvent(z, e))
	o.Within("what was imported", func() { o.OK(o.Th.SynchronizeStream(z)) })

	m.OK(process.Init(m.Th, nil))
	var key [65]byte
	m.OK(NotifyGetExportKey(m.Th, notify, &key[0], 65, abi.NotifyExportFlagDisablePidValidation))
	o.OK(NotifyImportByKey(o.Th, &other, &key[0], 0))
	m.OK(IpcGetEventHandle(m.Th, event, &block))
	o.OK(IpcOpenEventHandle(o.Th, block, &other))
}

// TestCellImportGone: what belongs to a process that has ended cannot be had any more.
func TestCellImportGone(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	o := coretest.NewMachine(t, "A2", "")
	_, _, _, keys := sharedCells(o)
	o.Runtime.Broker.Close() // as the end of the process does
	var n core.Handle
	text := append([]byte(keys[0]), 0)
	m.Want(NotifyImportByKey(m.Th, &n, &text[0], 0), abi.ErrRTParamInvalid)
	var block abi.IpcEventHandle
	if _, err := hex.Decode(block.Reserved[:], []byte(keys[2])); err != nil {
		t.Fatal(err)
	}
	m.Want(IpcOpenEventHandle(m.Th, block, &n), abi.ErrRTParamInvalid)
	if k, ok := share.FromBlock(block.Reserved[:]); !ok || m.Runtime.Broker.Owns(k) {
		t.Error("the key is of another process")
	}
}
