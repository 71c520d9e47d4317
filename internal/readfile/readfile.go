// Package readfile reads files whose names come from outside, and never more of them than the caller allows.
package readfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Text is the limit for files that people write.
const Text = 16 << 20

// Bounded returns the content of a file, which may be a pipe, or an error if it has more than limit bytes.
func Bounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return content(f, limit)
}

// Regular is [Bounded] for regular files. It refuses all others, and does not wait for the other end of a pipe.
func Regular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is not a regular file")}
	}
	if info.Size() > limit {
		return nil, tooLong(f, limit)
	}
	return content(f, limit)
}

func content(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = tooLong(f, limit)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func tooLong(f *os.File, limit int64) error {
	return &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("has more than %d bytes", limit)}
}
