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

// cellPage is a page that processes share, and a bell. Both have no name: they are there as long as a process has them.
//
// The bell is a pair of sockets: a byte that is sent to the rope is there to be received from the bell. Nobody has to
// receive it: who listens is told of each byte that arrives, because Go's poller watches edges, and so any number of
// processes hear the same bell. An eventfd would be less, but whether writing to one waits is a flag that all
// processes share, and any of them can change; what is sent says itself that it does not wait.
type cellPage struct {
	words  []atomic.Uint64
	memory []byte   // the mapping
	file   *os.File // of the page
	bell   *os.File // where it is heard
	rope   *os.File // where it is rung
	heard  syscall.RawConn
	rung   syscall.RawConn
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
	return mapCellPage(file, os.NewFile(uintptr(pair[0]), "bell"), os.NewFile(uintptr(pair[1]), "rope"))
}

// openCellPage makes a page of the files of another process. What that process could take away while it is in use is
// refused.
func openCellPage(files []*os.File) (*cellPage, error) {
	if len(files) != 3 {
		closeAll(files)
		return nil, fmt.Errorf("%d files came where a page, a bell and its rope were expected", len(files))
	}
	if err := errors.Join(checkPage(files[0]), checkBell(files[1]), checkBell(files[2])); err != nil {
		closeAll(files)
		return nil, err
	}
	return mapCellPage(files[0], files[1], files[2])
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() //nolint:errcheck // it was received, and is of no use
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

// checkBell lets a socket through: sending and receiving there never waits, if told so.
func checkBell(file *os.File) error {
	return control(file, func(fd int) error {
		if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
			return errors.New("what came is not a bell")
		}
		return nil
	})
}

// control calls f with the number of a file, which stays open meanwhile.
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
func mapCellPage(file, bell, rope *os.File) (*cellPage, error) {
	p := &cellPage{file: file, bell: bell, rope: rope}
	err := control(file, func(fd int) (err error) {
		p.memory, err = unix.Mmap(fd, 0, cellPageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return os.NewSyscallError("mmap", err)
	})
	if err == nil {
		p.heard, err = bell.SyscallConn()
	}
	if err == nil {
		p.rung, err = rope.SyscallConn()
	}
	if err == nil && bell.SetReadDeadline(time.Time{}) != nil {
		err = errors.New("the bell cannot be listened to")
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.words = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(p.memory))), cellPageSize/8)
	return p, nil
}

// files are duplicates of page, bell and rope, for another process.
func (p *cellPage) files() (list []*os.File, err error) {
	for _, f := range []*os.File{p.file, p.bell, p.rope} {
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

// ring tells all processes that listen. It does not wait, whatever they do with the bell: where there is no room for
// another byte, those that are there are received first. Who sends bytes meanwhile, rings as well.
func (p *cellPage) ring() {
	const always = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	p.rung.Control(func(fd uintptr) { //nolint:errcheck // it is open
		if unix.Send(int(fd), []byte{1}, always) != unix.EAGAIN {
			return
		}
		p.heard.Control(func(bell uintptr) { //nolint:errcheck // it is open
			unix.Recvfrom(int(bell), make([]byte, 64<<10),
				always) //nolint:errcheck // if there is nothing, there is room
		})
		unix.Send(int(fd), []byte{1}, always) //nolint:errcheck // somebody else rings
	})
}

// heed calls f now, and again when the bell was rung, until f is done. With doubt it returns os.ErrDeadlineExceeded
// after a while.
func (p *cellPage) heed(doubt bool, f func() (done bool)) error {
	if doubt {
		if err := p.bell.SetReadDeadline(time.Now().Add(suspicion)); err != nil {
			return err
		}
	}
	return p.heard.Read(func(uintptr) bool { return f() })
}

// close gives page and bell back. Nobody uses the words any more; who listens is let go.
func (p *cellPage) close() {
	if p.memory != nil {
		unix.Munmap(p.memory) //nolint:errcheck // it is mapped
	}
	p.bell.Close() //nolint:errcheck // nothing is lost
	p.rope.Close() //nolint:errcheck // nothing is lost
	p.file.Close() //nolint:errcheck // nothing is lost
}
