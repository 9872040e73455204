package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Sizes of files whose content was cut off, or lies where the disk cannot be read.
const (
	cutOff     = 1001
	unreadable = 1002
)

// spoiled is a store whose disk has done that.
type spoiled struct{ blob.Store }

// Open implements blob.Store.
func (s spoiled) Open(ctx context.Context, name string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	switch o.Size() {
	case cutOff:
		return blob.MemoryObject(make([]byte, cutOff/2)), o.Close()
	case unreadable:
		return badSector{o}, nil
	}
	return o, nil
}

type badSector struct{ blob.Object }

// ReadAt implements blob.Object.
func (badSector) ReadAt([]byte, int64) (int, error) { return 0, errors.New("input/output error") }

// A damaged small file is replaced by a problem and does not break the stream. Otherwise a client
// that requests the missing files again would meet the same file every time.
func TestDamagedFileDoesNotAbortStream(t *testing.T) {
	t.Parallel()
	var disk blob.Store
	s := newStack(t, uploadtest.Options{Store: func(at blob.Store) blob.Store { disk = at; return at }}, func(o *rest.Options) {
		o.Files = files.New(files.Options{DB: o.DB, Store: spoiled{disk}, Now: o.Now, Tree: tree.New(tree.Options{Now: o.Now})})
	})
	ann := s.newUser(t, "ann", 0)
	var ids []any
	for _, f := range []struct {
		name string
		size int
	}{{"a", 1000}, {"cut", cutOff}, {"unreadable", unreadable}, {"b", 1003}, {"empty", 0}} {
		ids = append(ids, ann.put(t, "/"+f.name, bytes.Repeat([]byte{'x'}, f.size))["id"])
	}
	r := ann.post(t, "/batch/contents", map[string]any{"nodes": ids}, "Prefer", "return=minimal")
	var got []int
	for in := bufio.NewReader(bytes.NewReader(r.body)); ; {
		raw, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(raw) == 0 {
			break
		}
		var line struct {
			Status int
			Size   int64
		}
		if err != nil || json.Unmarshal(raw, &line) != nil {
			t.Fatalf("%q, %v", raw, err)
		}
		got = append(got, line.Status)
		if _, err := io.CopyN(io.Discard, in, line.Size); err != nil {
			t.Fatal(err)
		}
	}
	const ok, bad = http.StatusOK, http.StatusInternalServerError
	if d := cmp.Diff([]int{ok, bad, bad, ok, ok, ok}, got); d != "" {
		t.Error(d)
	}
}
