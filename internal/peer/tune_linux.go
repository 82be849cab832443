package peer

import "syscall"

// deadMillis is after how long without an acknowledgement the kernel gives a connection up,
// so that a healed partition isn't waited out by TCP's back-off.
const deadMillis = 3000

const tcpUserTimeout = 0x12 // TCP_USER_TIMEOUT

// tune sets the socket options of a dialled connection.
func tune(_, _ string, c syscall.RawConn) (err error) {
	controlErr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, deadMillis)
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}
