//go:build linux

package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// serveBare is the bare server, the upper limit in comparisons: net/http and io.CopyBuffer into a
// file, with pooled buffers of 1 MiB. It does no hashing, journaling or accounting, and syncs only
// on request.
//
//	PUT /name            a new file
//	PUT /name?off=N      bytes at their place in a file
//	PUT /name?sync=file  a new file, synced
//	PUT /name?sync=dir   a new file, synced, and its directory
func serveBare(dir string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s\n", l.Addr())
	panic(http.Serve(l, bare(dir)))
}

var bareBuffers = sync.Pool{New: func() any { return new([1 << 20]byte) }}

type bare string

func (dir bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := dir.put(r); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (dir bare) put(r *http.Request) error {
	path := filepath.Join(string(dir), filepath.Base(r.URL.Path))
	query := r.URL.Query()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	off, _ := strconv.ParseInt(query.Get("off"), 10, 64) // 0 if absent
	buf := bareBuffers.Get().(*[1 << 20]byte)
	defer bareBuffers.Put(buf)
	_, err = io.CopyBuffer(io.NewOffsetWriter(f, off), r.Body, buf[:]) // NewOffsetWriter has no ReadFrom, which would bypass buf
	if err == nil && query.Has("sync") {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && query.Get("sync") == "dir" {
		err = syncDir(string(dir))
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
