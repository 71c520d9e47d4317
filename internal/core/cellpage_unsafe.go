package core

import (
	"encoding/binary"
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
// The bell is an eventfd. It is rung by writing to it, and nobody reads it: who listens is told of each write, because Go's poller
// watches edges, and so any number of processes hear the same bell.
type cellPage struct {
	words  []atomic.Uint64
	memory []byte   // the mapping
	file   *os.File // of the page
	bell   *os.File
	raw    syscall.RawConn // of the bell
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
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("eventfd", err), file.Close())
	}
	return mapCellPage(file, os.NewFile(uintptr(bell), "bell"))
}

// openCellPage makes a page of the files of another process. What that process could take away while it is in use is refused.
func openCellPage(files []*os.File) (*cellPage, error) {
	if len(files) != 2 {
		closeAll(files)
		return nil, fmt.Errorf("%d files came where a page and a bell were expected", len(files))
	}
	if err := errors.Join(checkPage(files[0]), checkBell(files[1])); err != nil {
		closeAll(files)
		return nil, err
	}
	return mapCellPage(files[0], files[1])
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

// checkBell lets through what can be rung without waiting and listened to.
func checkBell(file *os.File) error {
	return control(file, func(fd int) error {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || name != "anon_inode:[eventfd]" {
			return errors.New("what came is not a bell")
		}
		return unix.SetNonblock(fd, true)
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
func mapCellPage(file, bell *os.File) (*cellPage, error) {
	p := &cellPage{file: file, bell: bell}
	err := control(file, func(fd int) (err error) {
		p.memory, err = unix.Mmap(fd, 0, cellPageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return os.NewSyscallError("mmap", err)
	})
	if err == nil {
		p.raw, err = bell.SyscallConn()
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

// files are duplicates of page and bell, for another process.
func (p *cellPage) files() (list []*os.File, err error) {
	for _, f := range []*os.File{p.file, p.bell} {
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

// ring tells all processes that listen. It does not wait, whatever they have done to the bell: one that is full is emptied first.
func (p *cellPage) ring() {
	p.raw.Control(func(fd uintptr) { //nolint:errcheck // it is open
		var count [8]byte
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(poll, 0); n == 0 {
			unix.Read(int(fd), count[:]) //nolint:errcheck // there is something to read
		}
		binary.NativeEndian.PutUint64(count[:], 1)
		unix.Write(int(fd), count[:]) //nolint:errcheck // it has room
	})
}

// heed calls f now, and again when the bell was rung, until f is done. With doubt it returns os.ErrDeadlineExceeded after a while.
func (p *cellPage) heed(doubt bool, f func() (done bool)) error {
	if doubt {
		if err := p.bell.SetReadDeadline(time.Now().Add(suspicion)); err != nil {
			return err
		}
	}
	return p.raw.Read(func(uintptr) bool { return f() })
}

// close gives page and bell back. Nobody uses the words any more; who listens is let go.
func (p *cellPage) close() {
	if p.memory != nil {
		unix.Munmap(p.memory) //nolint:errcheck // it is mapped
	}
	p.bell.Close() //nolint:errcheck // nothing is lost
	p.file.Close() //nolint:errcheck // nothing is lost
}
