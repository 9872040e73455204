package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
	"example.org/smartdrive/client/clienttest"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "1048576": 1 << 20, "1MiB": 1 << 20, "8M": 8 << 20, "2MB": 2 << 20, "1GiB": 1 << 30, " 3K ": 3 << 10, "5B": 5,
	} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "MiB", "-1", "0", "1.5GiB", "8EiB", "99999999999T", "x"} {
		if got, err := parseSize(bad); err == nil {
			t.Errorf("%q is %d", bad, got)
		}
	}
}

func TestSizeText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 29: "1.5 GiB", 1 << 62: "4.0 EiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestRemotePath(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"/": "/ true", "a/b": "/a/b false", "/a/": "/a true", "": "/ true", "/../x": "/x false"} {
		if p, folder := remotePath(arg); fmt.Sprint(p, " ", folder) != want {
			t.Errorf("%q: %s %v", arg, p, folder)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	problem := func(c client.Code) error { return fmt.Errorf("put: %w", &client.Problem{Code: c}) }
	for _, test := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), 1},
		{problem(client.CodeInternal), 1},
		{withCode(exitUsage, errors.New("x")), 2},
		{problem(client.CodeUnauthenticated), 3},
		{problem(client.CodeForbidden), 3},
		{problem(client.CodeNotFound), 4},
		{fmt.Errorf("open: %w", fs.ErrNotExist), 4},
		{problem(client.CodeNameTaken), 5},
		{problem(client.CodeVersionChanged), 5},
		{problem(client.CodeQuota), 6},
		{problem(client.CodeDiskFull), 6},
		{someFailed(1, 3), 7},
	} {
		if got := codeOf(t.Context(), test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := codeOf(ctx, serverError(errors.New("the database does not answer"))); got != exitFailed {
		t.Errorf("a server that has failed to stop ends with %d", got)
	}
	if got := codeOf(ctx, serverError(fmt.Errorf("open the database: %w", context.Canceled))); got != exitInterrupted {
		t.Errorf("a server that was stopped before it was ready ends with %d", got)
	}
	if got := codeOf(ctx, problem(client.CodeNotFound)); got != exitInterrupted {
		t.Errorf("interrupted: %d", got)
	}
}

// A script must not take a mistyped command, such as "admin user delete ann", for one that was
// done.
func TestUnknownCommandIsUsageError(t *testing.T) {
	t.Parallel()
	var below func(cmd *cobra.Command)
	below = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			below(sub)
		}
		if !cmd.HasSubCommands() {
			return
		}
		args := append(strings.Fields(cmd.CommandPath())[1:], "frobnicate")
		if got := run(t.Context(), args, streams{strings.NewReader(""), io.Discard, io.Discard}); got == exitOK {
			t.Errorf("smartdrive %s ended with %d", strings.Join(args, " "), got)
		}
	}
	below(newRootCommand(&cli{streams: streams{strings.NewReader(""), io.Discard, io.Discard}}))
}

// An interrupted put says so, and the same command continues where it stopped.
func TestInterruptedPut(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	local := filepath.Join(t.TempDir(), "big")
	content := bytes.Repeat([]byte("0123456789abcdef"), 12<<16) // 12 MiB
	if err := os.WriteFile(local, content, 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"put", local, "/big", "--part-size", "1MiB", "--server", s.URL(), "--token", clienttest.Token}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasSuffix(r.URL.Path, "/parts/6") {
			interrupt()
			return clienttest.Refuse
		}
		return clienttest.None
	})
	var out, errs bytes.Buffer
	if code := run(ctx, args, streams{nil, &out, &errs}); code != exitInterrupted || !strings.Contains(errs.String(), "run it again") {
		t.Fatalf("exit %d: %s%s", code, out.String(), errs.String())
	}
	s.Inject(nil)
	if code := run(t.Context(), args, streams{nil, &out, &errs}); code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out.String(), errs.String())
	}
	if got, _ := s.File("/big"); !bytes.Equal(got, content) {
		t.Errorf("%d bytes arrived, or others", len(got))
	}
}

// Progress bars show running transfers and disappear when these end; none blocks the command.
func TestBars(t *testing.T) {
	t.Parallel()
	var screen lockedBuffer
	b := newBars(&screen)
	big := client.Event{Path: "/videos/summer.mp4", State: client.StateSending, Bytes: 10 << 20, Total: 40 << 20, Rate: 5 << 20, ETA: 6 * time.Second}
	b.event(big)
	b.event(client.Event{Path: "/small.txt", State: client.StateSent, Bytes: 5, Total: 5})
	for !strings.Contains(screen.String(), "10.0 MiB / 40.0 MiB  5.0 MiB/s  6s left  sending") {
		<-screen.written()
	}
	for !strings.Contains(screen.String(), "1 small files, 5 B") {
		<-screen.written()
	}
	big.State, big.Err = client.StateWaiting, errors.New("no answer from the server")
	b.event(big)
	for !strings.Contains(screen.String(), "waiting: no answer from the server") {
		<-screen.written()
	}
	if _, err := fmt.Fprintln(b, "sent  /small.txt"); err != nil {
		t.Error(err)
	}
	big.State = client.StateSent
	b.event(big)
	b.close()
	if !strings.Contains(screen.String(), "sent  /small.txt") {
		t.Errorf("a line was lost: %q", screen.String())
	}
}
