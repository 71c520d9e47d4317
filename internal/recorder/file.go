package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// create creates the file of this process, readable only by its user because it holds the command line. The file may
// exist already, since a process that executes another program keeps its number. The directory is created only if its
// parent exists: the user may have deleted that since.
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

// outOfTheWay gives a file a high descriptor: some programs close low descriptors that they do not know, and open
// other files in their place.
func outOfTheWay(f *os.File) *os.File {
	const high = 500
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, high)
	if err != nil {
		return f // the limit of descriptors is lower
	}
	name := f.Name()
	f.Close()
	return os.NewFile(uintptr(fd), name)
}

// identity identifies the file of a descriptor.
type identity struct{ device, inode uint64 }

// identityOf returns the identity of an open file; an error if the file has been deleted.
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

// mapped maps the first n bytes of a file. It reserves disk space for them, since touching a mapping without space
// would kill the process.
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

// allowed returns an error if the limit on file sizes is less than n bytes; the kernel would kill a process that
// exceeds it.
func allowed(n int64) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && limit.Cur < uint64(n) {
		return fmt.Errorf("a file may not have more than %d bytes here (ulimit -f)", limit.Cur)
	}
	return nil
}

// populate touches pages before they are needed. If no memory is available it returns an error, where touching the
// pages directly would kill the process.
func populate(m []byte) error {
	err := ignoringEINTR(func() error { return unix.Madvise(m, unix.MADV_POPULATE_WRITE) })
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EPERM {
		return nil // a kernel before 5.14; disk space is reserved anyway
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
