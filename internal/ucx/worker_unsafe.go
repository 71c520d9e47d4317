package ucx

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"ropeway/internal/dl"
)

// Option is an option of UCX, by its name without "UCX_". The environment overrides it.
type Option struct {
	Name, Value string
	Must        bool // the environment does not override it, and UCX must support it
}

func (o Option) asked() bool {
	if o.Must {
		return false
	}
	_, ok := os.LookupEnv("UCX_" + o.Name)
	return ok
}

// messageID is the number of all our active messages.
const messageID = 17

// Handler receives the events of a worker. Its methods are called in Progress and in Close.
type Handler interface {
	// Message is called for each message, which is valid only during the call.
	Message(m *Message)

	// Sent reports the result of a Send that was not done when it returned. The memory of the message is no longer
	// used. Sends not reported before Close has returned are never reported.
	Sent(id uint64, err error)

	// Failed reports that the endpoint can no longer be used. The worker must be closed.
	Failed(err error)
}

// Message is a received message.
type Message struct {
	Header, Data []byte
}

// Context is the common state of workers. Any goroutine may use it.
type Context struct {
	context uintptr // immutable
}

// Worker sends and receives, on one connection. It has only one endpoint, and both are closed together: with some
// transports a worker that is used after one of its endpoints was closed may crash.
type Worker struct {
	worker  uintptr
	ep      uintptr // 0 before Connect
	handler Handler
	number  uint64
	c       *scratch
	address []byte
	message Message
}

// scratch is memory that C reads and writes during a call. It is on the heap, so it does not move.
type scratch struct {
	params  params
	worker  workerParams
	ep      epParams
	handler handlerParam
	request requestParam
	out     [2]uintptr
	fd      int32
}

// Callbacks from C get a number, not a pointer: the worker in the upper 16 bits, a message below.
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

// Open returns a new context.
func Open(options []Option) (*Context, error) {
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
		r := callText(lib.ConfigModify, o.Name, o.Value, config)
		if err := check("ucp_config_modify "+o.Name, r); err != nil && o.Must {
			return nil, err
		}
	}
	s.params = params{mask: paramFeatures | paramShared, features: featureAM | featureWakeup, mtWorkersShared: 1}
	if err := check("ucp_init", call(lib.Init, apiMajor, apiMinor, addr(&s.params), config, addr(&s.out))); err != nil {
		return nil, err
	}
	return &Context{s.out[0]}, nil
}

// Close closes the context. Its workers must be closed before.
func (c *Context) Close() { dl.Call(lib.Cleanup, c.context) }

// NewWorker returns a new worker.
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

// Address returns the address to which another worker connects.
func (w *Worker) Address() []byte { return w.address }

// FD returns a file descriptor, owned by the worker, that becomes readable when there is work for Progress, once Arm
// has returned true.
func (w *Worker) FD() (int, error) {
	err := check("ucp_worker_get_efd", call(lib.WorkerGetEFD, w.worker, addr(&w.c.fd)))
	return int(w.c.fd), err
}

// Progress handles pending work, and reports whether there was any.
func (w *Worker) Progress() bool { return dl.CallInt(lib.WorkerProgress, w.worker) != 0 }

// Arm prepares to sleep; false if there is work for Progress.
func (w *Worker) Arm() bool { return call(lib.WorkerArm, w.worker) == statusOK }

// Signal makes FD readable. Any goroutine may call it while the worker is open.
func (w *Worker) Signal() { dl.CallInt(lib.WorkerSignal, w.worker) }

var errTwice = errors.New("ucx: a worker connects once")

// Connect creates the worker's endpoint. It does not wait: only sending shows whether the other side answers.
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
// with id, and header and data must not be changed until then. The message is eager: the other side is notified when
// it has all of it.
func (w *Worker) Send(header []byte, data uintptr, n uint64, id uint64) (done bool, err error) {
	if w.ep == 0 {
		return false, Canceled
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

// ended converts the result of a function that returns a request.
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

// Close closes the worker. Messages in flight end with an error, or without a report; their memory is not used after
// Close has returned. Over TCP it waits until the other side reads.
func (w *Worker) Close() {
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
	if (*recvParam)(at(param)).attr&recvRndv == 0 { // else it is not one of our messages, and is dropped
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

func statusText(s Status) string {
	if lib.StatusString == 0 {
		return fmt.Sprint(int32(s))
	}
	return text(dl.Call(lib.StatusString, uintptr(uint32(s))))
}

// call calls a function that returns a status of 8 bits.
func call(fn uintptr, words ...uintptr) int32 { return int32(int8(dl.CallInt(fn, words...))) }

// callText calls a function with words and then two texts.
func callText(fn uintptr, name, value string, words ...uintptr) int32 {
	n, v := append([]byte(name), 0), append([]byte(value), 0)
	r := call(fn, append(words, addr(unsafe.SliceData(n)), addr(unsafe.SliceData(v)))...)
	runtime.KeepAlive(n)
	runtime.KeepAlive(v)
	return r
}

// text returns a C string as a Go string.
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

// view returns n bytes of C memory.
func view(p uintptr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), n)
}

// at returns a pointer to C memory.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// addr returns the address of a value that C reads or writes during a call. It forces the value onto the heap,
// because stacks move and the compiler puts values without escaping pointers there.
func addr[T any](p *T) uintptr {
	if kept != nil {
		kept = p
	}
	return uintptr(unsafe.Pointer(p))
}

var kept any // always nil, but the compiler cannot know that
