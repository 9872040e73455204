package server

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent bounds how many bytes of a connection the kernel buffers that are not yet sent. It
// suffices to keep a fast line busy while the program prepares the next bytes.
const unsent = 256 << 10

// boundUnsent limits the unsent bytes of c in the kernel to unsent. Otherwise a peer that stops
// reading occupies up to 4 MiB of kernel memory, and behind a slow reader's buffer Write seems to
// stall for minutes.
//
// It returns the raw connection, for pacedConn.await; nil without an error if c is not a TCP
// connection.
func boundUnsent(c net.Conn) (syscall.RawConn, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) })
	return raw, errors.Join(err, set)
}

// roomOf returns how many bytes the kernel accepts now for the socket fd, at least minRoom; 0 if a
// write would wait. The kernel reports a connection as writable when a third of its buffer is free
// and less than half of the unsent limit is used (tcp_stream_memory_free, sk_stream_is_writeable).
func roomOf(fd int) int {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(poll, 0); err == nil && n == 0 {
		return 0
	}
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return minRoom // the write will report the error
	}
	return max(minRoom, min(size/4, unsent/2))
}
