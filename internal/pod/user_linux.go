package pod

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sameUser fails unless the process at the other end has the same user as this one.
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if int(cred.Uid) != os.Geteuid() {
		return errUser
	}
	return nil
}
