package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/telemetry"
)

// cli holds the streams and common flags of the client commands, and writes their results.
type cli struct {
	streams
	server string
	token  string
	json   bool

	retryFor     time.Duration // how long a call retries; 0: callRetryFor
	retryNoticed atomic.Bool   // the user was told that calls are being retried
}

// callRetryFor is how long a command retries while the server does not answer. A restarting server
// is back in a second.
const callRetryFor = 15 * time.Second

var (
	// errNoServer reports that no server is configured.
	errNoServer = errors.New("no server: give --server, set SMARTDRIVE_SERVER or run: smartdrive login URL")
	// errNoToken reports that no token is configured.
	errNoToken = errors.New("not logged in: give --token, set SMARTDRIVE_TOKEN or run: smartdrive login")
)

// flags adds the common flags to a client command.
func (c *cli) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.server, "server", "", "address of the server, such as https://drive.example.org")
	f.StringVar(&c.token, "token", "", "access token (other users of this computer may see it: prefer SMARTDRIVE_TOKEN)")
	f.BoolVar(&c.json, "json", false, "print results as JSON, one object per line")
}

// connect returns a client for the server and token from flags, environment or configuration, in
// that order. It fails with errNoServer or errNoToken if one is missing.
func (c *cli) connect() (*client.Client, error) {
	kept, err := loadConfig()
	if err != nil {
		return nil, err
	}
	server := firstNonEmpty(c.server, os.Getenv("SMARTDRIVE_SERVER"), kept.Server)
	if server == "" {
		return nil, errNoServer
	}
	token := firstNonEmpty(c.token, os.Getenv("SMARTDRIVE_TOKEN"))
	if token == "" && server == kept.Server {
		token = kept.Token // send a saved token only to the server that issued it
	}
	if token == "" {
		return nil, errNoToken
	}
	return c.newClient(server, token)
}

// nodeAt connects and returns the client and the node at a path. It fails with the error of connect
// or, wrapped with the path, of the server.
func (c *cli) nodeAt(ctx context.Context, path string) (*client.Client, client.Node, error) {
	api, err := c.connect()
	if err != nil {
		return nil, client.Node{}, err
	}
	p, _ := remotePath(path)
	n, err := api.NodeAt(ctx, p)
	if err != nil {
		return nil, client.Node{}, fmt.Errorf("%s: %w", p, err)
	}
	return api, n, nil
}

// newClient returns a client for a server address, which may omit "http://". An invalid address is
// a usage error.
func (c *cli) newClient(server, token string) (*client.Client, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	c.retryFor = cmp.Or(c.retryFor, callRetryFor)
	api, err := client.New(client.Options{
		BaseURL: server, Token: token, UserAgent: "smartdrive/" + telemetry.ReadBuild().Version, RetryFor: c.retryFor,
		OnRetry: func(err error, _ time.Duration) { c.noticeRetry(err) },
	})
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	return api, nil
}

// noticeRetry tells the user, once per command, that calls are being retried.
func (c *cli) noticeRetry(err error) {
	if !c.retryNoticed.Swap(true) {
		c.printError("smartdrive: %v; trying again for up to %s\n", err, c.retryFor)
	}
}

// firstNonEmpty returns the first value that is not empty, "" if there is none.
func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// writeJSON writes one result as a line of JSON. The format is an interface for scripts: members
// may be added, but never changed.
func (c *cli) writeJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", raw)
	return err
}

// show writes one result: v as a line of JSON with --json, otherwise the formatted line. It fails
// with a write error.
func (c *cli) show(v any, line string, args ...any) error {
	if c.json {
		return c.writeJSON(v)
	}
	return printVisible(c.out, line+"\n", args...)
}

// printVisible writes formatted text and escapes invisible characters, except as escapeInvisible
// keeps them, so that a name cannot control the terminal.
func printVisible(to io.Writer, format string, args ...any) error {
	_, err := io.WriteString(to, escapeInvisible(fmt.Sprintf(format, args...)))
	return err
}

// printError writes to standard error and ignores write errors.
func (c *cli) printError(format string, args ...any) { _ = printVisible(c.err, format, args...) }

// errorJSON is the JSON form of an error.
type errorJSON struct {
	Code   string `json:"code,omitempty"` // code of the problem
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail"`
	Exit   int    `json:"exit"`
}

// newErrorJSON returns the JSON form of err with the exit code. Code and Status are set only if err
// is a Problem of the server.
func newErrorJSON(err error, exit int) *errorJSON {
	f := &errorJSON{Detail: err.Error(), Exit: exit}
	if p, ok := errors.AsType[*client.Problem](err); ok {
		f.Code, f.Status = string(p.Code), p.Status
	}
	return f
}

// report prints why the command failed, with a hint what to do; with --json as an object.
func (c *cli) report(err error, code int) {
	text := err.Error()
	switch {
	case code == exitInterrupted:
		text = "interrupted; run it again to go on where it stopped"
	case client.IsCode(err, client.CodeUnauthenticated):
		text += "; log in with: smartdrive login"
	}
	if c.json && code != exitUsage {
		_ = c.writeJSON(map[string]*errorJSON{"error": newErrorJSON(err, code)}) // write errors cannot be reported
	}
	c.printError("smartdrive: %s\n", text)
}

// isTerminal reports whether w is a file that is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// remotePath returns an argument as an absolute remote path. folder reports that it ends in a
// slash.
func remotePath(arg string) (p string, folder bool) {
	return client.CleanPath(arg), arg == "" || strings.HasSuffix(arg, "/")
}

// sizeText formats a number of bytes, such as 1.5 MiB.
func sizeText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for ; value >= unit && prefix < 5; prefix++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}

// timeText formats a time in the local time zone; "-" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}
