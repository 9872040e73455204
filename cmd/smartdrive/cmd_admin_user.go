package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/drive"
)

// userCommand returns the command `admin user`: manage users and transfer their files.
func (a *adminCLI) userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Manage users and transfer their files", Args: usageArgs(cobra.NoArgs), RunE: showHelp,
	}
	cmd.AddCommand(a.userAdd(), a.userSet(), a.userHandover(), a.userDisconnect(), a.userRm(), a.userLs(), a.userActivity())
	return cmd
}

// userFlags are the flags that set properties of a user.
type userFlags struct {
	password, quota, state string
	mustChange             bool
}

// add adds the flags that adding and changing a user have in common.
func (f *userFlags) add(cmd *cobra.Command, passwordHelp string) {
	cmd.Flags().StringVar(&f.password, "password", "", passwordHelp)
	cmd.Flags().StringVar(&f.quota, "quota", "", `bytes the user may have, such as 50GiB, or "unlimited"`)
	cmd.Flags().BoolVar(&f.mustChange, "must-change", false, "whoever logs in with the password has to set another one first")
}

// body builds the JSON request body from the flags on the command line; a flag that is not set has
// no member. It reads the password for "-". It fails with a usage error for an invalid quota.
func (f *userFlags) body(a *adminCLI, cmd *cobra.Command) (map[string]any, error) {
	body := map[string]any{}
	switch {
	case f.quota == "unlimited":
		body["total"] = nil
	case f.quota != "":
		size, err := drive.ParseByteSize(f.quota)
		if err != nil {
			return nil, usageError(cmd, fmt.Errorf("--quota: %w", err))
		}
		body["total"] = size
	}
	if f.password != "" {
		password, err := a.readPassword(f.password)
		if err != nil {
			return nil, err
		}
		body["password"] = password
		if f.mustChange {
			body["must_change_password"] = true
		}
	}
	if f.state != "" {
		body["state"] = f.state
	}
	return body, nil
}

// readPassword returns the value of a password flag. For "-" it prompts on a terminal, or reads a
// line of standard input.
func (a *adminCLI) readPassword(flag string) (string, error) {
	if flag != "-" {
		return flag, nil
	}
	if f, ok := a.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(a.err, "Password: ")
		defer fmt.Fprintln(a.err)
		raw, err := term.ReadPassword(int(f.Fd()))
		return string(raw), err
	}
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if line == "" {
		return "", fmt.Errorf("read the password from standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// userAdd returns the command `admin user add NAME`: add a user.
func (a *adminCLI) userAdd() *cobra.Command {
	f, admin := new(userFlags), false
	cmd := &cobra.Command{
		Use:     "add NAME",
		Short:   "Add a user",
		Example: "  smartdrive admin user add wang --quota 50GiB --password -",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	f.add(cmd, `password; "-" asks for it (the default) or reads a line`)
	cmd.Flags().BoolVar(&admin, "admin", false, "make the user an administrator")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.password == "" {
			f.password = "-"
		}
		body, err := f.body(a, cmd)
		if err != nil {
			return err
		}
		body["name"], body["admin"] = args[0], admin
		return a.withConnection(cmd.Context(), func(c *connection) error {
			var made json.RawMessage
			if err := c.call(cmd.Context(), http.MethodPost, apiPath+"/admin/users", body, &made); err != nil {
				return err
			}
			return show(a, made, func(u client.User) string { return fmt.Sprintf("added %s (%s)", u.Name, u.ID) })
		})
	}
	return cmd
}

// userSet returns the command `admin user set NAME`: change a user's password, quota or state.
func (a *adminCLI) userSet() *cobra.Command {
	f := new(userFlags)
	cmd := &cobra.Command{
		Use:     "set NAME",
		Short:   "Change a user's password, quota or state",
		Example: "  smartdrive admin user set admin --password -\n  smartdrive admin user set wang --quota unlimited --state disabled",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	f.add(cmd, `new password; "-" asks for it or reads a line; ends the user's logins`)
	cmd.Flags().StringVar(&f.state, "state", "", "active or disabled")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := f.body(a, cmd)
		if err == nil && len(body) == 0 {
			err = usageError(cmd, errors.New("nothing to change: give --password, --quota or --state"))
		}
		if err != nil {
			return err
		}
		return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error {
			var changed json.RawMessage
			if err := c.call(cmd.Context(), http.MethodPatch, userPath(u), body, &changed); err != nil {
				return err
			}
			return show(a, changed, func(u client.User) string { return "changed " + u.Name })
		})
	}
	return cmd
}

// userRm returns the command `admin user rm NAME`: delete a user; their files are purged after 30
// days.
func (a *adminCLI) userRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a user; their files are purged after 30 days",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error {
				if err := c.call(cmd.Context(), http.MethodDelete, userPath(u), nil, nil); err != nil {
					return err
				}
				return a.printDone(map[string]string{"deleted": u.ID}, "deleted %s", u.Name)
			})
		},
	}
}

// userDisconnect returns the command `admin user disconnect NAME`: unlink a user from the identity
// provider and end the sessions it started.
func (a *adminCLI) userDisconnect() *cobra.Command {
	return &cobra.Command{
		Use:   "disconnect NAME",
		Short: "Unlink a user from the identity provider and end the sessions it started",
		Long: `Unlink a user from the identity provider and end the sessions it started. Somebody who has no password needs one first
(smartdrive admin user set). Where whoever comes gets a user, the person gets a new one when they come again.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error {
				if err := c.call(cmd.Context(), http.MethodDelete, userPath(u)+"/sign-on", nil, nil); err != nil {
					return err
				}
				return a.printDone(map[string]string{"disconnected": u.ID}, "disconnected %s", u.Name)
			})
		},
	}
}

// userLs returns the command `admin user ls`: list users.
func (a *adminCLI) userLs() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List users",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				return c.eachItem(cmd.Context(), apiPath+"/admin/users", func(raw json.RawMessage) error {
					return show(a, raw, func(u client.User) string {
						return fmt.Sprintf("%-20s %-9s %-6s quota %s, %s", u.Name, u.State, role(u), totalText(u.Total), lastLogin(u))
					})
				})
			})
		},
	}
}

// userActivity returns the command `admin user activity NAME`: show the security log of a user:
// logins, tokens, passwords, identity provider, settings.
func (a *adminCLI) userActivity() *cobra.Command {
	types, limit := "", 50
	cmd := &cobra.Command{
		Use:   "activity NAME",
		Short: "Show the security log of a user: logins, tokens, passwords, identity provider, settings",
		Long: `Show the logins of a user, the failed ones, tokens and app passwords, changes of the password, the identity provider, and settings of the
server that the user has changed, the newest first. Failed logins of an hour are one line. What the user does with files is not shown.`,
		Example: "  smartdrive admin user activity wang --type login.failed",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error {
				path := userPath(u) + "/activity"
				if types != "" {
					path = withQuery(path, "type", types)
				}
				return c.eachItemUpTo(cmd.Context(), path, limit, func(raw json.RawMessage) error { return show(a, raw, accountLine) })
			})
		},
	}
	cmd.Flags().StringVar(&types, "type", "", "only these types, such as login.failed, or token for all that begin with it, separated by commas")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "how many entries at most; 0 = all")
	return cmd
}

// accountLine formats an activity entry about an account as one line.
func accountLine(h client.ActivityEntry) string {
	var d struct {
		Times int      `json:"times"`
		From  []string `json:"from"`
	}
	_ = json.Unmarshal(h.Data, &d) //nolint:errcheck // data of another version is left out
	who, from := "-", h.Address
	if h.By != nil {
		who = h.By.Name
	}
	if len(d.From) > 0 {
		from = strings.Join(d.From, ", ")
	}
	parts := []string{fmt.Sprintf("%s  %-16s  %s", timeText(h.At), h.Type, who)}
	if d.Times > 1 {
		parts = append(parts, fmt.Sprintf("%d times", d.Times))
	}
	for _, s := range []string{h.Name, from} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "  ")
}

// lastLogin formats the time of a user's last login.
func lastLogin(u client.User) string {
	if u.LastLogin == nil {
		return "never logged in"
	}
	return "last login " + timeText(*u.LastLogin)
}

// role returns "admin" or "user".
func role(u client.User) string {
	if u.Admin {
		return "admin"
	}
	return "user"
}

// totalText formats a quota in bytes; nil is "unlimited".
func totalText(total *int64) string {
	if total == nil {
		return "unlimited"
	}
	return sizeText(*total)
}

// ledgerCommand returns the command `admin ledger NAME`: show the ledger of a user: finished,
// unfinished and reserved bytes, and deleted bytes still on disk.
func (a *adminCLI) ledgerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ledger NAME",
		Short: "Show the ledger of a user: finished, unfinished and reserved bytes, and deleted bytes still on disk",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error {
				var ledger json.RawMessage
				if err := c.call(cmd.Context(), http.MethodGet, userPath(u)+"/ledger", nil, &ledger); err != nil {
					return err
				}
				return show(a, ledger, func(l client.Ledger) string {
					return fmt.Sprintf("total %s, finished %s, unfinished %s, reserved %s; %s deleted and still on the disk",
						totalText(l.Total), sizeText(l.Finished), sizeText(l.Unfinished), sizeText(l.Reserved), sizeText(l.Owed))
				})
			})
		},
	}
}

// withUser connects, looks up a user by name, ignoring case, and calls act. It fails with
// exitNotFound for an unknown name.
func (a *adminCLI) withUser(ctx context.Context, name string, act func(*connection, client.User) error) error {
	return a.withConnection(ctx, func(c *connection) error {
		var found struct {
			Items []client.User `json:"items"`
		}
		if err := c.call(ctx, http.MethodGet, withQuery(apiPath+"/admin/users", "name", name), nil, &found); err != nil {
			return err
		}
		if len(found.Items) == 0 {
			return withCode(exitNotFound, fmt.Errorf("there is no user %q", name))
		}
		return act(c, found.Items[0])
	})
}

// userPath returns the API path of a user.
func userPath(u client.User) string { return apiPath + "/admin/users/" + u.ID }

// withQuery returns path with the query parameter name set to value, replacing an earlier value. An
// unreadable query is dropped.
func withQuery(path, name, value string) string {
	base, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		values = url.Values{}
	}
	values.Set(name, value)
	return base + "?" + values.Encode()
}
