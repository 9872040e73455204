package server

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes of a connection the kernel may hold that it has not sent yet: enough to
// keep a fast line busy while the program makes the next ones.
const unsent = 256 << 10

// boundUnsent bounds what the kernel takes of an answer before its peer can take it. Without it a
// peer that stops reading has up to 4 MiB of the kernel's memory; and one that reads slowly lets so
// much pile up that for minutes Write seems to stand still.
func boundUnsent(c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) })
	return errors.Join(err, set)
}
