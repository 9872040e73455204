package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// handoverPoll is the polling interval of a command that waits for a handover.
const handoverPoll = time.Second

// handoverFlags are the flags of "admin user handover".
type handoverFlags struct {
	to, space, folder string
	wait, remove      bool
}

// userHandover returns the command `admin user handover NAME`: transfer all files of a user to
// another user.
func (a *adminCLI) userHandover() *cobra.Command {
	f := new(handoverFlags)
	cmd := &cobra.Command{
		Use:   "handover NAME",
		Short: "Transfer all files of a user to another user",
		Long: `Give all files of a user who leaves to another user or to a space, into a new folder there, charged to the receiver. The user is disabled, signed out
everywhere, and the links that the user gave out end; uploads are cancelled. What was shared by name stays shared. The files keep their versions, their dates and
their place in the trash. It is refused, and nothing is changed, when the receiver has no room for all of it.

The server does it in the background, and goes on after a restart. Without --to and --to-space the command says how far it is. --delete waits for the end and
deletes the user then.`,
		Example: "  smartdrive admin user handover wang --to li --wait\n  smartdrive admin user handover wang --to-space Design --folder \"From Wang\" --delete\n  smartdrive admin user handover wang",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().StringVar(&f.to, "to", "", "name of the user who gets the files")
	cmd.Flags().StringVar(&f.space, "to-space", "", "name of the space that gets the files")
	cmd.Flags().StringVar(&f.folder, "folder", "", `name of the folder that is made for them (default "Files of NAME")`)
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for the end")
	cmd.Flags().BoolVar(&f.remove, "delete", false, "wait for the end, and delete the user then")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.to != "" && f.space != "" {
			return usageError(cmd, errors.New("--to and --to-space: one of them"))
		}
		return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error {
			return a.handOver(cmd.Context(), c, u, f)
		})
	}
	return cmd
}

// handOver starts to move a user's files to the receiver in f. Without a receiver, it looks up the
// user's latest handover. With --wait or --remove it waits until the handover is done. It prints
// the state, and with --remove then deletes the user.
func (a *adminCLI) handOver(ctx context.Context, c *connection, u client.User, f *handoverFlags) error {
	var raw json.RawMessage
	if f.to == "" && f.space == "" {
		if err := c.call(ctx, http.MethodGet, userPath(u)+"/handover", nil, &raw); err != nil {
			return err
		}
	} else {
		in, err := f.receiver(ctx, c)
		if err != nil {
			return err
		}
		if err := c.call(ctx, http.MethodPost, userPath(u)+"/handover", in, &raw); err != nil {
			return err
		}
	}
	if f.wait || f.remove {
		var err error
		if raw, err = a.awaitHandover(ctx, c, u, raw); err != nil {
			return err
		}
	}
	if err := show(a, raw, func(h client.Handover) string { return handoverText(u.Name, h) }); err != nil || !f.remove {
		return err
	}
	if err := c.call(ctx, http.MethodDelete, userPath(u), nil, nil); err != nil {
		return err
	}
	return a.printDone(map[string]string{"deleted": u.ID}, "deleted %s", u.Name)
}

// receiver looks up the receiving user or space by name or id and returns the request. It fails
// with exitNotFound if there is none.
func (f *handoverFlags) receiver(ctx context.Context, c *connection) (client.NewHandover, error) {
	in := client.NewHandover{Folder: f.folder}
	if f.to != "" {
		var found client.List[client.User]
		if err := c.call(ctx, http.MethodGet, withQuery(apiPath+"/admin/users", "name", f.to), nil, &found); err != nil {
			return in, err
		}
		if len(found.Items) == 0 {
			return in, withCode(exitNotFound, fmt.Errorf("there is no user %q", f.to))
		}
		in.ToUser = found.Items[0].ID
		return in, nil
	}
	name := strings.TrimPrefix(f.space, "//")
	err := c.eachItem(ctx, apiPath+"/admin/spaces", func(raw json.RawMessage) error {
		var s client.Space
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		if s.ID == name || strings.EqualFold(s.Name, name) {
			in.ToSpace = s.ID
		}
		return nil
	})
	if err == nil && in.ToSpace == "" {
		err = withCode(exitNotFound, fmt.Errorf("there is no space %q", f.space))
	}
	return in, err
}

// awaitHandover polls a handover until it has ended and returns its last state, done or failed. It
// prints progress to standard error. It fails with the cause of ctx.
func (a *adminCLI) awaitHandover(ctx context.Context, c *connection, u client.User, raw json.RawMessage) (json.RawMessage, error) {
	tick := time.NewTicker(handoverPoll)
	defer tick.Stop()
	said := ""
	for {
		var h client.Handover
		if err := json.Unmarshal(raw, &h); err != nil {
			return nil, err
		}
		if h.State != "running" {
			return raw, nil
		}
		if line := handoverText(u.Name, h); line != said {
			said = line
			fmt.Fprintln(a.err, line)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
		if err := c.call(ctx, http.MethodGet, userPath(u)+"/handover", nil, &raw); err != nil {
			return nil, err
		}
	}
}

// handoverText formats the progress of a handover.
func handoverText(name string, h client.Handover) string {
	to := h.To
	if h.ToSpace {
		to = "//" + to
	}
	switch {
	case h.State == "done":
		return fmt.Sprintf("%s has all files of %s: %d files and folders", to, name, h.Done)
	case h.WaitsFor == "quota":
		return fmt.Sprintf("%d of %d files and folders of %s have gone to %s, which has no room for more", h.Done, h.Total, name, to)
	}
	return fmt.Sprintf("%d of %d files and folders of %s have gone to %s", h.Done, h.Total, name, to)
}
