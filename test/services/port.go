package services

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

const loopback = "127.0.0.1"

// Ports are taken from below those that systems hand out by themselves (Linux: from 32768, others: from 49152), so that nobody's
// outgoing connection sits on one when a service comes back.
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

// reserve takes the n ports that a file names, or others when they are not free, and writes them there.
func reserve(path string, n int) (*reserved, error) {
	known, err := readPorts(path)
	if err == nil && len(known) == n {
		if r, err := listen(known); err == nil {
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

// FreePort returns a port of loopback that is free now and that the system hands out to nobody by itself.
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

func listen(ports []int) (*reserved, error) {
	r := &reserved{numbers: ports}
	for _, port := range ports {
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
		r, err := listen(ports)
		if err == nil {
			return r, nil
		}
		last = err
	}
	return nil, fmt.Errorf("find free ports: %w", last)
}
