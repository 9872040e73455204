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

// loopback is the address on which all services listen.
const loopback = "127.0.0.1"

// Ports are chosen below the ephemeral ports of systems (Linux: from 32768, others: from 49152), so
// that no outgoing connection occupies the port of a restarting service.
const firstPort, lastPort = 18000, 32000

// reserved holds ports until the service listens on them.
type reserved struct {
	numbers   []int
	listeners []net.Listener
}

// release closes the listeners.
func (r *reserved) release() {
	for _, l := range r.listeners {
		closeNow(l)
	}
	r.listeners = nil
}

// claimed holds the ports that belong to this process until it ends, even while nobody listens on
// them: a test may kill a service or cut a network. Each port is a locked file, which the system
// unlocks when the process ends.
var claimed struct {
	sync.Mutex
	ports map[int]*os.File
}

// claim assigns a port to this process. It fails with errLocked if another process, or without
// again this process, has claimed it.
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

// reserve takes the n ports listed in a file or, if they are not free, n others, which it writes to
// the file.
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

// FreePort returns a loopback port that neither the system nor this package, in any process,
// assigns to others while this process runs.
func FreePort() (int, error) {
	r, err := listenAnywhere(1)
	if err != nil {
		return 0, err
	}
	r.release()
	return r.numbers[0], nil
}

// readPorts reads the ports of a file.
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

// listen claims ports and listens on them.
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

// listenAnywhere listens on n random free ports.
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
