package services

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const loopback = "127.0.0.1"

// Ports are taken from below those that systems hand out by themselves (Linux: from 32768, others:
// from 49152), so that nobody's outgoing connection sits on one when a service comes back.
const firstPort, lastPort = 18000, 32000

// reserved are ports that are held until the service takes them.
type reserved struct {
	numbers   []int
	listeners []net.Listener
}

func (r *reserved) release() {
	for _, l := range r.listeners {
		closeNow(l)
	}
	r.listeners = nil
}

// claimed are the ports that are this process's for as long as it lives, although nobody listens at
// them all the time: a service is away while a test has killed it, and a network while a test has
// cut it. Each is a locked file, and the system takes the locks back with the process.
var claimed struct {
	sync.Mutex
	ports map[int]*os.File
}

// claim makes a port this process's. again: it may be that already.
func claim(port int, again bool) error {
	claimed.Lock()
	defer claimed.Unlock()
	if claimed.ports[port] != nil {
		if again {
			return nil
		}
		return fmt.Errorf("port %d: %w", port, errLocked)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("smartdrive-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("claim a port: %w", err)
	}
	f, err := lock(filepath.Join(dir, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d: %w", port, err)
	}
	if claimed.ports == nil {
		claimed.ports = map[int]*os.File{}
	}
	claimed.ports[port] = f
	return nil
}

// reserve takes the n ports that a file names, or others when they are not free, and writes them
// there.
func reserve(path string, n int) (*reserved, error) {
	known, err := readPorts(path)
	if err == nil && len(known) == n {
		if r, err := listen(known, true); err == nil {
			return r, nil
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r, err := listenAnywhere(n)
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i, port := range r.numbers {
		words[i] = strconv.Itoa(port)
	}
	if err := os.WriteFile(path, []byte(strings.Join(words, " ")+"\n"), 0o600); err != nil {
		r.release()
		return nil, fmt.Errorf("write the ports: %w", err)
	}
	return r, nil
}

// FreePort returns a port of loopback that nobody else gets for as long as this process lives: the
// system hands it out to nobody by itself, and neither does this package in any process.
func FreePort() (int, error) {
	r, err := listenAnywhere(1)
	if err != nil {
		return 0, err
	}
	r.release()
	return r.numbers[0], nil
}

func readPorts(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the ports: %w", err)
	}
	var ports []int
	for word := range strings.FieldsSeq(string(text)) {
		port, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("read the ports: %w", err)
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func listen(ports []int, again bool) (*reserved, error) {
	r := &reserved{numbers: ports}
	for _, port := range ports {
		if err := claim(port, again); err != nil {
			r.release()
			return nil, err
		}
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))) //nolint:noctx // it does not block
		if err != nil {
			r.release()
			return nil, err
		}
		r.listeners = append(r.listeners, l)
	}
	return r, nil
}

func listenAnywhere(n int) (*reserved, error) {
	var last error
	for range 100 {
		ports := make([]int, n)
		for i := range ports {
			ports[i] = firstPort + rand.IntN(lastPort-firstPort)
		}
		r, err := listen(ports, false)
		if err == nil {
			return r, nil
		}
		last = err
	}
	return nil, fmt.Errorf("find free ports: %w", last)
}
