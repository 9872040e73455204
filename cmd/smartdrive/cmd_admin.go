package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/app"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/telemetry"
)

// adminLong is the help of `smartdrive admin`.
const adminLong = `Administer the installation in a data directory, on the machine itself. While a server runs, the commands speak to it
over <data>/admin.sock; else they open the installation themselves (with several instances: as one more instance). They ask
for no password: whoever can open the socket is the administrator.

To reset a lost password: smartdrive admin user set admin --password -`

// adminCLI holds the streams and flags of the admin commands.
type adminCLI struct {
	streams
	json bool
	cfg  *pflag.FlagSet
}

// newAdminCommand returns the command `admin`: administer the installation on this machine.
func newAdminCommand() *cobra.Command {
	a := &adminCLI{streams: streams{os.Stdin, os.Stdout, os.Stderr}, cfg: pflag.NewFlagSet("admin", pflag.ContinueOnError)}
	config.AddFlags(a.cfg)
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Administer the installation on this machine",
		Long:  adminLong,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  showHelp,
	}
	for _, name := range []string{"data", "db", "redis", "kafka", "blobs", "namespace", "secret-key", "config"} {
		cmd.PersistentFlags().AddFlag(a.cfg.Lookup(name))
	}
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print results as JSON, one object per line")
	cmd.AddCommand(a.statusCommand(), a.readyCommand(), a.growthCommand(), a.settingsCommand(), a.userCommand(), a.activityCommand(), a.ledgerCommand(), a.uploadsCommand(), a.timersCommand(), a.auditCommand(), a.dlqCommand(), a.fsckCommand(),
		a.backupCommand(), a.restoreCommand(), a.secretsCommand())
	return cmd
}

// connection is an HTTP connection to the server's control socket.
type connection struct {
	http  *http.Client
	close func() error
}

// config returns the server's configuration from flags and environment. An error is a usage error.
func (a *adminCLI) config() (config.Config, error) {
	cfg, err := config.Load(a.cfg, os.Environ(), os.ReadFile)
	if err != nil {
		return config.Config{}, withCode(exitUsage, err)
	}
	return cfg, nil
}

// withConnection connects to the running server, or opens the installation itself, runs act and
// closes the connection. It fails with exitFailed if neither is possible, and with the error of
// act.
func (a *adminCLI) withConnection(ctx context.Context, act func(*connection) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(a.err, slog.LevelWarn, telemetry.FormatText)
	if err != nil {
		return err
	}
	conn := new(connection)
	if conn.http, conn.close, err = app.ConnectControl(ctx, cfg, log); err != nil {
		return withCode(exitFailed, err) // always a failure, even if err is a missing file
	}
	return errors.Join(act(conn), conn.close())
}

// apiPath is the path prefix of the native API on the control socket.
const apiPath = "/api/v1"

// call sends a request with in as JSON body (nil: none) to the control socket and decodes the reply
// into out (nil: ignored). It returns a *client.Problem for an error of the server. It does not
// retry.
func (c *connection) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("control socket: %w", err)
	case resp.StatusCode >= http.StatusBadRequest:
		p := new(client.Problem)
		if err := json.Unmarshal(raw, p); err != nil {
			return fmt.Errorf("control socket: status %d", resp.StatusCode)
		}
		return p
	case out == nil:
		return nil
	}
	return json.Unmarshal(raw, out)
}

// page is one page of a list of the API.
type page struct {
	Items      []json.RawMessage `json:"items"`
	NextCursor *string           `json:"next_cursor"`
}

// eachItem calls each for every item of a list, over all pages, and stops at its first error. path
// must contain a query.
func (c *connection) eachItem(ctx context.Context, path string, each func(json.RawMessage) error) error {
	return c.eachItemUpTo(ctx, path, 0, each)
}

// eachItemUpTo calls each with the items of a paged list, at most limit of them; 0 means all. It
// stops at the first error of a request or of each.
func (c *connection) eachItemUpTo(ctx context.Context, path string, limit int, each func(json.RawMessage) error) error {
	seen := 0
	for next := path; ; {
		var p page
		if err := c.call(ctx, http.MethodGet, next, nil, &p); err != nil {
			return err
		}
		for _, item := range p.Items {
			if err := each(item); err != nil {
				return err
			}
			if seen++; seen == limit {
				return nil
			}
		}
		if p.NextCursor == nil {
			return nil
		}
		next = withQuery(path, "cursor", *p.NextCursor)
	}
}

// show prints one result: the JSON as received with --json, otherwise the line that line makes of
// it. It fails if raw is not the JSON of a T.
func show[T any](a *adminCLI, raw json.RawMessage, line func(T) string) error {
	if a.json {
		_, err := fmt.Fprintf(a.out, "%s\n", raw)
		return err
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return printVisible(a.out, "%s\n", line(v))
}

// printDone reports a success: v as JSON with --json, otherwise the formatted line.
func (a *adminCLI) printDone(v any, line string, args ...any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return show(a, raw, func(json.RawMessage) string { return fmt.Sprintf(line, args...) })
}
