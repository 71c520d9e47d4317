package ucx

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"ropeway/internal/dl"
)

// Option is one of UCX, by its name without "UCX_". One that the environment has is left as it is there.
type Option struct {
	Name, Value string
	Transport   string // that it is for, as its name in the environment begins; "": for UCX as a whole
	Must        bool   // the environment does not count
}

func (o Option) asked() bool {
	if o.Must {
		return false
	}
	_, ok := os.LookupEnv("UCX_" + o.names()[0])
	return ok
}

// names are what ucp_config_modify may know it by: 1.13 wants the name of a transport's option without the
// transport, later versions with it. A name that no transport has is not an error, and has no effect.
func (o Option) names() []string {
	if o.Transport == "" {
		return []string{o.Name}
	}
	return []string{o.Transport + "_" + o.Name, o.Name}
}

// messageID is the number of all our active messages.
const messageID = 17

// Handler receives what happens. Its methods are called in Progress and in Close.
type Handler interface {
	// Message is called for each message. Nothing of it may be used after the call.
	Message(m *Message)

	// Sent reports that a message was sent, or not, which had not been when Send returned. Its memory is not used any
	// more. What was not reported before Close returned never is.
	Sent(id uint64, err error)

	// Failed reports that the endpoint can no longer be used. The worker is to be closed.
	Failed(err error)
}

// Message is one that has come.
type Message struct {
	Header, Data []byte
}

// Context is what workers have in common. Any goroutine may use it.
type Context struct {
	context uintptr // immutable
	whole   uint64  // immutable; see Open
}

// Worker sends and receives, on one connection. It has one endpoint in its life: with UCX over TCP a worker that goes
// on after one of its endpoints was closed may crash (see RATIONALE.md), so the two are closed together.
type Worker struct {
	worker    uintptr
	ep        uintptr // 0 before Connect
	handler   Handler
	number    uint64
	maxHeader uint64
	c         *scratch
	address   []byte
	message   Message
	whole     uint64     // see Open
	waiting   []outgoing // messages that there was no room for, the oldest first; if whole
}

// outgoing is a message that is to be sent.
type outgoing struct {
	header []byte
	data   uintptr
	n, id  uint64
}

// scratch is what C reads and writes during a call. It is on the heap, where nothing moves.
type scratch struct {
	params  params
	worker  workerParams
	attr    workerAttr
	ep      epParams
	handler handlerParam
	request requestParam
	out     [2]uintptr
	fd      int32
}

// Functions that C calls get a number, not a pointer: the worker in the upper 16 bits, a message below.
const (
	idBits     = 48
	idMask     = 1<<idBits - 1
	mostNumber = 1<<16 - 1
)

var (
	workersMu sync.RWMutex
	workers   = map[uint64]*Worker{} // guarded by workersMu
	lastNum   uint64                 // guarded by workersMu
)

func workerOf(id uintptr) *Worker {
	workersMu.RLock()
	defer workersMu.RUnlock()
	return workers[uint64(id)>>idBits]
}

var errMany = errors.New("ucx: too many workers")

// register gives w a number that no other worker has.
func (w *Worker) register() error {
	workersMu.Lock()
	defer workersMu.Unlock()
	if len(workers) >= mostNumber {
		return errMany
	}
	for {
		lastNum = lastNum%mostNumber + 1
		if workers[lastNum] == nil {
			break
		}
	}
	w.number = lastNum
	workers[w.number] = w
	return nil
}

// Open makes a context. If whole is not 0, no header with its data is longer, and UCX gets each message when there is
// room for it in the connection, and never one that it would have to keep: those wait in the worker. So UCX has no need
// to introduce endpoints to each other, which it does before it keeps a message, and does not survive if the other side
// ends at that moment (see RATIONALE.md). The transport must send such messages by its call for short ones, as TCP does
// with segments that are long enough.
func Open(options []Option, whole uint64) (*Context, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	s := new(scratch)
	if err := check("ucp_config_read", call(lib.ConfigRead, 0, 0, addr(&s.out))); err != nil {
		return nil, err
	}
	config := s.out[0]
	defer dl.Call(lib.ConfigRelease, config)
	for _, o := range options {
		if o.asked() {
			continue
		}
		for _, name := range o.names() {
			if err := check("ucp_config_modify "+name, callText(lib.ConfigModify, name, o.Value, config)); err != nil {
				return nil, err
			}
		}
	}
	s.params = params{mask: paramFeatures | paramShared, features: featureAM | featureWakeup, mtWorkersShared: 1}
	if err := check("ucp_init", call(lib.Init, apiMajor, apiMinor, addr(&s.params), config, addr(&s.out))); err != nil {
		return nil, err
	}
	return &Context{s.out[0], whole}, nil
}

// WholeTCP are options of a context whose messages are whole, over TCP alone. A message of one segment is a short one
// only for the protocols of 1.13, which later versions have, too. Connect does not wait for a server whose packets are
// lost.
func WholeTCP() []Option {
	return []Option{
		{Name: "TLS", Value: "tcp", Must: true},
		{Name: "PROTO_ENABLE", Value: "n", Must: true},
		{Name: "RESOLVE_REMOTE_EP_ID", Value: "n", Must: true},
		{Name: "ZCOPY_THRESH", Value: "inf", Must: true},
		{Transport: "TCP", Name: "CONN_NB", Value: "y", Must: true},
	}
}

// Close ends the context. Its workers are closed before.
func (c *Context) Close() { dl.Call(lib.Cleanup, c.context) }

// NewWorker makes a worker.
func (c *Context) NewWorker(h Handler) (*Worker, error) {
	w := &Worker{handler: h, c: new(scratch)}
	if err := w.open(c); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Worker) open(c *Context) error {
	w.c.worker = workerParams{mask: workerThreadMode | workerEvents, threadMode: threadSerialized,
		events: wakeupRX | wakeupTX}
	if err := check("ucp_worker_create", call(lib.WorkerCreate, c.context, addr(&w.c.worker),
		addr(&w.c.out))); err != nil {
		return err
	}
	w.worker = w.c.out[0]
	w.c.attr = workerAttr{mask: workerMaxHeader}
	if err := check("ucp_worker_query", call(lib.WorkerQuery, w.worker, addr(&w.c.attr))); err != nil {
		return err
	}
	w.maxHeader, w.whole = w.c.attr.maxHeader, c.whole
	if w.maxHeader < w.whole { // a header is as long as a message can be that is one segment, and a little less
		return fmt.Errorf("ucx: messages have up to %d bytes, segments of its transports have room for %d",
			w.whole, w.maxHeader)
	}
	if err := check("ucp_worker_get_address", call(lib.WorkerGetAddress, w.worker, addr(&w.c.out[0]),
		addr(&w.c.out[1]))); err != nil {
		return err
	}
	w.address = append([]byte(nil), view(w.c.out[0], uint64(w.c.out[1]))...)
	dl.Call(lib.WorkerReleaseAddress, w.worker, w.c.out[0])
	if err := w.register(); err != nil {
		return err
	}
	w.c.handler = handlerParam{mask: handlerID | handlerFlag | handlerCB | handlerArg, id: messageID, flags: wholeMsg,
		cb: lib.message, arg: w.id(0)}
	return check("ucp_worker_set_am_recv_handler", call(lib.SetHandler, w.worker, addr(&w.c.handler)))
}

func (w *Worker) id(n uint64) uintptr { return uintptr(w.number<<idBits | n&idMask) }

// Address is what another worker connects to.
func (w *Worker) Address() []byte { return w.address }

// MaxHeader is how long a header may be.
func (w *Worker) MaxHeader() uint64 { return w.maxHeader }

// FD is a file descriptor that becomes readable when there is something to do, once Arm has returned true. It is the
// worker's.
func (w *Worker) FD() (int, error) {
	err := check("ucp_worker_get_efd", call(lib.WorkerGetEFD, w.worker, addr(&w.c.fd)))
	return int(w.c.fd), err
}

// Progress does what there is to do, and reports whether there was something.
func (w *Worker) Progress() bool {
	did := dl.CallInt(lib.WorkerProgress, w.worker) != 0
	return w.flush() || did
}

// flush sends messages that wait, as far as there is room, and reports whether there was some.
func (w *Worker) flush() (did bool) {
	for len(w.waiting) > 0 {
		m := &w.waiting[0]
		done, err := w.try(m.header, m.data, m.n)
		if !done && err == nil {
			break
		}
		id := m.id
		w.waiting = slices.Delete(w.waiting, 0, 1)
		w.handler.Sent(id, err)
		did = true
	}
	return did
}

// Arm prepares to sleep; false if there is something to do.
func (w *Worker) Arm() bool { return call(lib.WorkerArm, w.worker) == statusOK }

// Signal makes FD readable. Any goroutine may call it while the worker is open.
func (w *Worker) Signal() { dl.CallInt(lib.WorkerSignal, w.worker) }

var (
	errTwice = errors.New("ucx: a worker connects once")
	errLong  = errors.New("ucx: the message is too long")
)

// Connect makes the worker's endpoint. It does not wait: whether the other side is there shows when something is sent.
func (w *Worker) Connect(address []byte) error {
	if w.ep != 0 {
		return errTwice
	}
	own := append([]byte(nil), address...)
	w.c.ep = epParams{
		mask: epRemoteAddress | epErrMode | epErrHandler, address: addr(unsafe.SliceData(own)), errMode: errModePeer,
		errHandler: lib.failed, errArg: w.id(0),
	}
	err := check("ucp_ep_create", call(lib.EPCreate, w.worker, addr(&w.c.ep), addr(&w.c.out)))
	runtime.KeepAlive(own)
	if err == nil {
		w.ep = w.c.out[0]
	}
	return err
}

// Send sends a message: a header, and n bytes at data. If done is false and there is no error, Sent will be called
// with id, and header and data are not to be changed until then. The message is eager: the other side has all of it
// when it hears of it.
func (w *Worker) Send(header []byte, data uintptr, n uint64, id uint64) (done bool, err error) {
	if w.ep == 0 {
		return false, Canceled
	}
	if w.whole > 0 {
		if uint64(len(header)) > w.whole || n > w.whole-uint64(len(header)) {
			return false, errLong
		}
		if len(w.waiting) == 0 {
			done, err = w.try(header, data, n)
		}
		if !done && err == nil {
			w.waiting = append(w.waiting, outgoing{header, data, n, id})
		}
		return done, err
	}
	p := &w.c.request
	*p = requestParam{
		mask: opCallback | opUserData | opFlags | opMemoryType, flags: amEager, cb: lib.sent,
		userData: w.id(id), memoryType: memoryHost,
	}
	r := dl.Call(lib.Send, w.ep, messageID, addr(unsafe.SliceData(header)), uintptr(len(header)), data, uintptr(n),
		addr(p))
	runtime.KeepAlive(header)
	return ended("ucp_am_send", r)
}

// try sends a message if there is room for it, and leaves nothing with UCX if there is not: done is false then, without
// an error.
func (w *Worker) try(header []byte, data uintptr, n uint64) (done bool, err error) {
	p := &w.c.request
	*p = requestParam{mask: opFlags | opMemoryType | opForceImm, flags: amEager, memoryType: memoryHost}
	r := dl.Call(lib.Send, w.ep, messageID, addr(unsafe.SliceData(header)), uintptr(len(header)), data, uintptr(n),
		addr(p))
	runtime.KeepAlive(header)
	if int64(r) == statusNoResource {
		return false, nil
	}
	return ended("ucp_am_send", r)
}

// ended is what a function that returns a request says.
func ended(function string, r uintptr) (done bool, err error) {
	if r == 0 {
		return true, nil
	}
	if pending(r) {
		return false, nil
	}
	return false, check(function, int32(r))
}

// pending reports whether a function returned a request, and neither success nor an error.
func pending(r uintptr) bool { return r != 0 && int64(r) >= 0 || int64(r) < statusLast }

// Close ends the worker at once, whatever the other side does. What is in flight ends with an error, or without being
// reported; no memory of it is used when Close has returned.
func (w *Worker) Close() {
	if w.worker != 0 {
		w.cut()
	}
	if w.ep != 0 {
		p := &w.c.request
		*p = requestParam{mask: opFlags, flags: closeForce}
		if r := dl.Call(lib.EPClose, w.ep, addr(p)); pending(r) {
			dl.Call(lib.RequestFree, r)
		}
	}
	if w.worker != 0 {
		dl.Call(lib.WorkerDestroy, w.worker)
	}
	w.worker, w.ep = 0, 0
	waiting := w.waiting
	w.waiting = nil
	for _, m := range waiting {
		w.handler.Sent(m.id, Canceled)
	}
	workersMu.Lock()
	defer workersMu.Unlock()
	if workers[w.number] == w {
		delete(workers, w.number)
	}
}

// onMessage is called by C for each message.
func onMessage(arg, header, headerLen, data, dataLen, param uintptr) uintptr {
	w := workerOf(arg)
	if w == nil {
		return statusOK
	}
	if (*recvParam)(at(param)).attr&recvRndv == 0 { // else it is none of ours, and is dropped
		w.message = Message{view(header, uint64(headerLen)), view(data, uint64(dataLen))}
		w.handler.Message(&w.message)
	}
	return statusOK
}

func onSent(request, status, id uintptr) {
	if w := workerOf(id); w != nil {
		w.handler.Sent(uint64(id)&idMask, check("ucp_am_send", int32(int8(status))))
	}
	dl.Call(lib.RequestFree, request)
}

func onFailed(arg, _, status uintptr) {
	if w := workerOf(arg); w != nil {
		w.handler.Failed(check("endpoint", int32(int8(status))))
	}
}

// Version is that of the library.
func Version() string { return text(dl.Call(lib.GetVersion)) }

func statusText(s Status) string {
	if lib.StatusString == 0 {
		return fmt.Sprint(int32(s))
	}
	return text(dl.Call(lib.StatusString, uintptr(uint32(s))))
}

// call calls a function that returns a status, which has 8 bits.
func call(fn uintptr, words ...uintptr) int32 { return int32(int8(dl.CallInt(fn, words...))) }

// callText calls a function with words and then two texts.
func callText(fn uintptr, name, value string, words ...uintptr) int32 {
	n, v := append([]byte(name), 0), append([]byte(value), 0)
	r := call(fn, append(words, addr(unsafe.SliceData(n)), addr(unsafe.SliceData(v)))...)
	runtime.KeepAlive(n)
	runtime.KeepAlive(v)
	return r
}

// text is a text of C's.
func text(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := uint64(0)
	for *(*byte)(at(p + uintptr(n))) != 0 {
		n++
	}
	return string(view(p, n))
}

// view is n bytes of C's.
func view(p uintptr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), n)
}

// at is a pointer to memory of C's.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// addr is the address of something that C reads or writes during a call. It is on the heap: what is on a stack moves
// with it, and the compiler puts it there if it sees no pointer that stays.
func addr[T any](p *T) uintptr {
	if kept != nil {
		kept = p
	}
	return uintptr(unsafe.Pointer(p))
}

var kept any // always nil, which the compiler does not know
