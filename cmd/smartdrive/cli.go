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

	"smartdrive/client"
)

// cli is what the client commands share: streams, the flags that all of them have, and the way
// results are shown.
type cli struct {
	streams
	server string
	token  string
	json   bool

	giveUp  time.Duration // how long a call goes on trying
	waiting atomic.Bool   // it was said that the server does not answer
}

// callGiveUp is how long a command waits for a server that does not answer; one that restarts is
// back in a second.
const callGiveUp = 15 * time.Second

var (
	errNoServer = errors.New("no server: give --server, set SMARTDRIVE_SERVER or run: smartdrive login URL")
	errNoToken  = errors.New("not logged in: give --token, set SMARTDRIVE_TOKEN or run: smartdrive login")
)

// flags adds the flags that every client command has.
func (c *cli) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.server, "server", "", "address of the server, such as https://drive.example.org")
	f.StringVar(&c.token, "token", "", "access token (other users of this computer may see it: prefer SMARTDRIVE_TOKEN)")
	f.BoolVar(&c.json, "json", false, "print results as JSON, one object per line")
}

// connect returns the client for the server and token that flags, environment and configuration
// name.
func (c *cli) connect() (*client.Client, error) {
	kept, err := loadConfig()
	if err != nil {
		return nil, err
	}
	server := firstOf(c.server, os.Getenv("SMARTDRIVE_SERVER"), kept.Server)
	if server == "" {
		return nil, errNoServer
	}
	token := firstOf(c.token, os.Getenv("SMARTDRIVE_TOKEN"))
	if token == "" && server == kept.Server {
		token = kept.Token // a token goes only to the server that gave it
	}
	if token == "" {
		return nil, errNoToken
	}
	return c.dial(server, token)
}

// at is connect for a command that means a node: the one at a path.
func (c *cli) at(ctx context.Context, path string) (*client.Client, client.Node, error) {
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

func (c *cli) dial(server, token string) (*client.Client, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	c.giveUp = cmp.Or(c.giveUp, callGiveUp)
	api, err := client.New(client.Options{
		BaseURL: server, Token: token, UserAgent: "smartdrive/" + buildVersion(), GiveUp: c.giveUp,
		Waiting: func(err error, _ time.Duration) { c.waitingFor(err) },
	})
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	return api, nil
}

// waitingFor says, once, what a command waits for.
func (c *cli) waitingFor(err error) {
	if !c.waiting.Swap(true) {
		c.say("smartdrive: %v; trying again for up to %s\n", err, c.giveUp)
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// object writes one result as JSON. Its form is part of the interface: members are added, never
// changed.
func (c *cli) object(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", raw)
	return err
}

// show writes one result: v as JSON, or the line.
func (c *cli) show(v any, line string, args ...any) error {
	if c.json {
		return c.object(v)
	}
	return printVisible(c.out, line+"\n", args...)
}

// printVisible writes for people: see visible.
func printVisible(to io.Writer, format string, args ...any) error {
	_, err := io.WriteString(to, visible(fmt.Sprintf(format, args...)))
	return err
}

// say writes to standard error; when that fails there is no one else to tell.
func (c *cli) say(format string, args ...any) { _ = printVisible(c.err, format, args...) }

// failure is how an error looks in JSON.
type failure struct {
	Code   string `json:"code,omitempty"` // of the problem
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail"`
	Exit   int    `json:"exit"`
}

func newFailure(err error, exit int) *failure {
	f := &failure{Detail: err.Error(), Exit: exit}
	if p, ok := errors.AsType[*client.Problem](err); ok {
		f.Code, f.Status = string(p.Code), p.Status
	}
	return f
}

// report tells why the command failed.
func (c *cli) report(err error, code int) {
	text := err.Error()
	switch {
	case code == exitInterrupted:
		text = "interrupted; run it again to go on where it stopped"
	case client.IsCode(err, client.CodeUnauthenticated):
		text += "; log in with: smartdrive login"
	}
	if c.json && code != exitUsage {
		_ = c.object(map[string]*failure{"error": newFailure(err, code)}) // there is no one else to tell
	}
	c.say("smartdrive: %s\n", text)
}

// terminal reports whether w is one, and so whether a person reads it.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// remotePath makes an absolute path of an argument; folder says that it ended in a slash.
func remotePath(arg string) (p string, folder bool) {
	return client.CleanPath(arg), arg == "" || strings.HasSuffix(arg, "/")
}

// sizeText shows bytes to people.
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

// timeText shows a moment to people, in their time zone.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}
