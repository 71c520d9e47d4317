package signal

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cellPage is a page that processes share, and a pair of sockets by which they notify each other. Neither has a name:
// they exist as long as a process has them.
//
// A notification is a byte on one socket that arrives at the other. It need not be received: Go's poller is
// edge-triggered and wakes a waiting goroutine for each byte that arrives, in any number of processes. An eventfd would
// be simpler, but whether a write to it blocks is a flag that all processes share and any of them can change; a send on
// a socket has its own flag for not blocking.
type cellPage struct {
	words      []atomic.Uint64
	memory     []byte   // the mapping
	file       *os.File // of the page
	receive    *os.File // socket for receiving notifications
	send       *os.File // socket for sending them
	rawReceive syscall.RawConn
	rawSend    syscall.RawConn
}

const (
	cellPageSize  = 4096
	cellPageSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
)

func newCellPage() (*cellPage, error) {
	fd, err := unix.MemfdCreate("ropeway-cell", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "cell")
	if err := unix.Ftruncate(fd, cellPageSize); err != nil {
		return nil, errors.Join(os.NewSyscallError("ftruncate", err), file.Close())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, cellPageSeals|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), file.Close())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("socketpair", err), file.Close())
	}
	return mapCellPage(file, os.NewFile(uintptr(pair[0]), "receive"), os.NewFile(uintptr(pair[1]), "send"))
}

// openCellPage maps the page of the files of another process. It refuses files whose content that process could remove
// while they are in use.
func openCellPage(files []*os.File) (*cellPage, error) {
	if len(files) != 3 {
		closeAll(files)
		return nil, fmt.Errorf("%d files came where a page and two sockets were expected", len(files))
	}
	if err := errors.Join(checkPage(files[0]), checkSocket(files[1]), checkSocket(files[2])); err != nil {
		closeAll(files)
		return nil, err
	}
	return mapCellPage(files[0], files[1], files[2])
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() //nolint:errcheck // it was received, and cannot be used
	}
}

func checkPage(file *os.File) error {
	return control(file, func(fd int) error {
		var s unix.Stat_t
		if err := unix.Fstat(fd, &s); err != nil {
			return err
		}
		seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil || s.Size != cellPageSize || seals&cellPageSeals != cellPageSeals {
			return errors.New("what came is not a page that keeps its size")
		}
		return nil
	})
}

// checkSocket accepts a stream socket: sending and receiving there never blocks, given MSG_DONTWAIT.
func checkSocket(file *os.File) error {
	return control(file, func(fd int) error {
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
			return errors.New("what came is not a socket")
		}
		return nil
	})
}

// control calls f with the descriptor of a file, which stays open during the call.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// mapCellPage maps the page; it closes the files if it cannot.
func mapCellPage(file, receive, send *os.File) (*cellPage, error) {
	p := &cellPage{file: file, receive: receive, send: send}
	err := control(file, func(fd int) (err error) {
		p.memory, err = unix.Mmap(fd, 0, cellPageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return os.NewSyscallError("mmap", err)
	})
	if err == nil {
		p.rawReceive, err = receive.SyscallConn()
	}
	if err == nil {
		p.rawSend, err = send.SyscallConn()
	}
	if err == nil && receive.SetReadDeadline(time.Time{}) != nil {
		err = errors.New("the socket cannot be waited for")
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.words = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(p.memory))), cellPageSize/8)
	return p, nil
}

// files returns duplicates of the files of the page and the sockets, for another process.
func (p *cellPage) files() (list []*os.File, err error) {
	for _, f := range []*os.File{p.file, p.receive, p.send} {
		err := control(f, func(fd int) error {
			n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err == nil {
				list = append(list, os.NewFile(uintptr(n), f.Name()))
			}
			return os.NewSyscallError("fcntl", err)
		})
		if err != nil {
			closeAll(list)
			return nil, err
		}
	}
	return list, nil
}

// notify wakes all waiting processes. It does not block, whatever they do with the sockets: if there is no room for
// another byte, it first receives the pending ones. A process that sends bytes at the same time has notified them as
// well.
func (p *cellPage) notify() {
	const always = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	p.rawSend.Control(func(fd uintptr) { //nolint:errcheck // it is open
		if unix.Send(int(fd), []byte{1}, always) != unix.EAGAIN {
			return
		}
		p.rawReceive.Control(func(from uintptr) { //nolint:errcheck // it is open
			unix.Recvfrom(int(from), make([]byte, 64<<10),
				always) //nolint:errcheck // without data there is room
		})
		unix.Send(int(fd), []byte{1}, always) //nolint:errcheck // another process has just sent one
	})
}

// watch calls f now, and again after each notification, until f is done. With doubt it returns os.ErrDeadlineExceeded
// after a while.
func (p *cellPage) watch(doubt bool, f func() (done bool)) error {
	if doubt {
		if err := p.receive.SetReadDeadline(time.Now().Add(suspicion)); err != nil {
			return err
		}
	}
	return p.rawReceive.Read(func(uintptr) bool { return f() })
}

// close releases the page and the sockets, and watch returns. Nothing may use the words.
func (p *cellPage) close() {
	if p.memory != nil {
		unix.Munmap(p.memory) //nolint:errcheck // it is mapped
	}
	p.receive.Close() //nolint:errcheck // nothing is lost
	p.send.Close()    //nolint:errcheck // nothing is lost
	p.file.Close()    //nolint:errcheck // nothing is lost
}
