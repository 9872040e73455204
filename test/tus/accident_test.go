//go:build linux

package tus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
)

// hanging is a PATCH whose client stalls in the middle of the body.
type hanging struct {
	conn net.Conn
	in   *bufio.Reader
}

// hang sends the header of a PATCH of size bytes, with more lines that each end in CR LF, and then
// only content.
func (d *drive) hang(at string, offset, size int, content []byte, more ...string) hanging {
	d.t.Helper()
	conn, err := net.Dial("tcp", d.listen)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	_, path, _ := strings.Cut(strings.TrimPrefix(at, "http://"), "/")
	_, err = fmt.Fprintf(conn, "PATCH /%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: %d\r\n"+
		"Content-Type: application/offset+octet-stream\r\nContent-Length: %d\r\n%s\r\n", path, d.token, offset, size, strings.Join(more, ""))
	if err == nil {
		_, err = conn.Write(content)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return hanging{conn, bufio.NewReader(conn)}
}

// answer reads the reply to the stalled client.
func (h hanging) answer() (*http.Response, error) {
	_ = h.conn.SetReadDeadline(time.Now().Add(time.Minute))
	return http.ReadResponse(h.in, nil)
}

// arrived waits until the server has read all that was sent: nothing is left in either socket's
// queue.
func (h hanging) arrived(t *testing.T) {
	t.Helper()
	near, far := h.conn.LocalAddr().(*net.TCPAddr).Port, h.conn.RemoteAddr().(*net.TCPAddr).Port
	process.Eventually(t, time.Minute, "the bytes have arrived", func() error {
		sent, err := queue(near, far, 0)
		if err != nil {
			return err
		}
		unread, err := queue(far, near, 1)
		if err == nil && sent+unread > 0 {
			err = fmt.Errorf("%d bytes are on their way, %d not read", sent, unread)
		}
		return err
	})
}

// queue is the length of a queue (0: to send, 1: received) of the socket that connects two ports,
// by proc_net_tcp(5).
func queue(local, remote, which int) (int64, error) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 4 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", local)) && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", remote)) {
			return strconv.ParseInt(strings.Split(f[4], ":")[which], 16, 64)
		}
	}
	return 0, errors.New("no such connection")
}

// buffers bounds the bytes that the server has read and not stored yet. A request that is
// interrupted loses them.
const buffers = 8 << 10

// kept reads an offset after which a request was ended that had brought the bytes before end.
func kept(t *testing.T, offset string, end int) int {
	t.Helper()
	n, err := strconv.Atoi(offset)
	if err != nil || n < end-buffers || n > end {
		t.Fatalf("%q bytes of %d were kept (%v)", offset, end, err)
	}
	return n
}

// What HEAD, or the answer to a PATCH, has said holds after kill -9 in the middle of the next
// PATCH.
func TestAnOffsetSurvivesKill(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(30*mib+99, 30)
	at := d.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", "killed")))
	said := 3*mib + 1
	d.patch(at, chunk(0), content[:said], 204, said)
	d.hang(at, said, len(content)-said, content[said:8*mib+1]).arrived(t)
	var parts struct{ Items []struct{ N int } }
	process.Eventually(t, time.Minute, "a part is full", func() error { // it is in the journal without anybody asking
		if d.api(http.MethodGet, "/uploads/"+at[strings.LastIndexByte(at, '/')+1:]+"/parts", nil, &parts); len(parts.Items) == 0 {
			return errors.New("no part is")
		}
		return nil
	})
	d.server.Kill()
	d.start()
	left, err := strconv.Atoi(d.offset(at))
	if err != nil || left < 8*mib || left > 8*mib+1 {
		t.Fatalf("%d bytes of %d are left (%v)", left, 8*mib+1, err)
	}
	d.hang(at, left, len(content)-left, content[left:17*mib+1]).arrived(t)
	head := kept(t, d.offset(at), 17*mib+1)
	d.hang(at, head, len(content)-head, content[head:18*mib+1]).arrived(t)
	d.server.Kill()
	d.start()
	said, err = strconv.Atoi(d.offset(at))
	if err != nil || said < head || said > 18*mib+1 {
		t.Fatalf("HEAD said %d, and %d after the kill (%v)", head, said, err)
	}
	d.patch(at, chunk(said), content[said:], 204, len(content))
	d.holds("/killed", content)
}

// A client that got no reply to the last byte asks for the offset, and the reply says that the file
// exists.
func TestLostReplyToLastByte(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(3*mib+1, 33)
	at := d.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", "whole")))
	dead := d.hang(at, 0, len(content)+1, nil)
	if resp, err := dead.answer(); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("more than declared: %v %v", resp, err)
	}
	d.patch(at, chunk(0), content[:len(content)-1], 204, len(content)-1)
	process.Eventually(t, time.Minute, "all bytes are there", func() error {
		dead := d.hang(at, len(content)-1, 1, content[len(content)-1:]) // a HEAD that is quicker ends it before its byte is read
		_ = dead.conn.Close()
		if got := d.offset(at); got != fmt.Sprint(len(content)) {
			return fmt.Errorf("the offset is %s", got)
		}
		return nil
	})
	d.holds("/whole", content) // there when the offset was said
}

// A client reconnects after its connection has broken, before the server notices. It gets its reply
// at once.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const atOnce = 30 * time.Second // on a busy machine; it takes milliseconds, and a hung body would take a minute
	d := newDrive(t)
	content := noise(12*mib, 31)
	at := d.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", "taken")))
	try := func(method string, h header, body string) (answer, error) {
		ctx, stop := context.WithTimeout(t.Context(), atOnce)
		defer stop()
		return d.try(ctx, method, at, h, strings.NewReader(body))
	}

	dead := d.hang(at, 0, len(content), content[:2*mib+1])
	dead.arrived(t)
	a, err := try(http.MethodHead, with(), "")
	if err != nil {
		t.Fatalf("HEAD while another request hangs: %v", err)
	}
	head := kept(t, a.header.Get("Upload-Offset"), 2*mib+1)
	if resp, err := dead.answer(); err == nil && resp.StatusCode < 400 {
		t.Errorf("the request that was ended is answered with %s", resp.Status)
	}

	d.hang(at, head, len(content)-head, content[head:3*mib+1]).arrived(t)
	// A PATCH takes over as well, because the client does not know whether its first PATCH ended.
	a, err = try(http.MethodPatch, chunk(head), string(content[head:]))
	if err != nil || a.status != 409 {
		t.Fatalf("PATCH at the old offset: %s %v", a, err)
	}
	head = kept(t, d.offset(at), 3*mib+1)
	a, err = try(http.MethodPatch, chunk(head), string(content[head:]))
	if err != nil || a.status != 204 {
		t.Fatalf("PATCH at the new one: %s %v", a, err)
	}
	d.holds("/taken", content)

	// DELETE, as well.
	at = d.create(with("Upload-Length", "100"))
	d.hang(at, 0, 100, content[:50])
	if a, err := try(http.MethodDelete, with(), ""); err != nil || a.status != 204 {
		t.Errorf("DELETE while another request hangs: %s %v", a, err)
	}
}

// A body that breaks off is kept as far as it came; with a checksum it is all or nothing.
func TestInterruptedPatchKeepsReceivedBytes(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(5*mib, 32)
	at := d.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", "cut")))
	dead := d.hang(at, 0, len(content), content[:mib+1])
	dead.arrived(t)
	_ = dead.conn.Close()
	head := kept(t, d.offset(at), mib+1)
	dead = d.hang(at, head, 2*mib, content[head:2*mib], "Upload-Checksum: crc32 AAAAAA==\r\n")
	dead.arrived(t)
	_ = dead.conn.Close()
	if got := d.offset(at); got != fmt.Sprint(head) {
		t.Errorf("bytes without their checksum were kept: the offset is %s", got)
	}
	d.patch(at, chunk(head), content[head:], 204, len(content))
	d.holds("/cut", content)
}
