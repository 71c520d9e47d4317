package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// create makes the file of this process, for its user alone: it holds the command line. A process that runs another
// program keeps its number, so there may be one already. The directory is made where its parent is: a user who wanted
// the recording may have gone, and taken that along.
func create(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	name := strconv.Itoa(os.Getpid())
	for i := 2; ; i++ {
		f, err := os.OpenFile(filepath.Join(dir, name+Suffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
		name = strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(i)
	}
}

// outOfTheWay gives a file a high descriptor: programs close low ones that they do not know, and open others in their
// place.
func outOfTheWay(f *os.File) *os.File {
	const high = 500
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, high)
	if err != nil {
		return f // so many are not allowed
	}
	name := f.Name()
	f.Close()
	return os.NewFile(uintptr(fd), name)
}

// identity is which file a descriptor is of.
type identity struct{ device, inode uint64 }

// identityOf is that of an open file that has a name.
func identityOf(f *os.File) (identity, error) {
	var s unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(int(f.Fd()), &s) }); err != nil {
		return identity{}, err
	}
	if s.Nlink == 0 {
		return identity{}, errors.New("it was removed")
	}
	return identity{uint64(s.Dev), s.Ino}, nil
}

// mapped is the first n bytes of a file as memory. The disk has room for them: memory without would kill the process
// that touches it.
func mapped(f *os.File, n int) ([]byte, error) {
	if err := allowed(int64(n)); err != nil {
		return nil, err
	}
	err := ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, int64(n)) })
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		_, err = f.WriteAt(make([]byte, n), 0)
	}
	if err != nil {
		return nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	unix.Madvise(m, unix.MADV_DONTFORK) //nolint:errcheck // a child has no use for it
	return m, nil
}

// allowed reports whether a file may have n bytes. The kernel would send a signal to a process that tries.
func allowed(n int64) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && limit.Cur < uint64(n) {
		return fmt.Errorf("a file may not have more than %d bytes here (ulimit -f)", limit.Cur)
	}
	return nil
}

// populate touches pages before they are needed. Where there is none to be had this fails; a process that just touched
// them would be killed.
func populate(m []byte) error {
	err := ignoringEINTR(func() error { return unix.Madvise(m, unix.MADV_POPULATE_WRITE) })
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EPERM {
		return nil // a kernel before 5.14: the room is reserved
	}
	return err
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
