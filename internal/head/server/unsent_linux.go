package server

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes of a connection the kernel may hold that it has not sent yet: enough to
// keep a fast line busy while the program makes the next ones.
const unsent = 256 << 10

// boundUnsent bounds what the kernel takes of an answer before its peer can take it. Without it a
// peer that stops reading has up to 4 MiB of the kernel's memory; and one that reads slowly lets so
// much pile up that for minutes Write seems to stand still.
//
// It returns the connection as roomOf takes it; nil: it is none of TCP.
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

// roomOf returns how many bytes the kernel takes now of what is written to a connection; 0: a write
// would wait. The kernel calls a connection writable when a third of its buffer is free, and less
// than half of what may be unsent is (tcp_stream_memory_free, sk_stream_is_writeable).
func roomOf(fd int) int {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(poll, 0); err == nil && n == 0 {
		return 0
	}
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return leastRoom // the write will tell what is wrong
	}
	return max(leastRoom, min(size/4, unsent/2))
}
