package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// defaultServer is the address where "serve" listens by default.
const defaultServer = "http://127.0.0.1:8320"

// newLoginCommand returns the command `login [URL]`: log in to a server and remember it.
func newLoginCommand(c *cli) *cobra.Command {
	var (
		name  string
		stdin bool
	)
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Log in to a server and remember it",
		Long: `Log in to a server and save its address and a session token in ~/.config/smartdrive/config.json, which only you can
read. The password is prompted for without echo, or read from standard input with --password-stdin.`,
		Example: `  smartdrive login https://drive.example.org --user ann
  smartdrive login --user admin --password-stdin < /run/secrets/drive`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kept, err := loadConfig()
			if err != nil {
				return err
			}
			server := firstNonEmpty(c.server, os.Getenv("SMARTDRIVE_SERVER"), kept.Server, defaultServer)
			if len(args) == 1 {
				server = args[0]
			}
			return c.login(cmd, server, name, stdin)
		},
	}
	cmd.Flags().StringVarP(&name, "user", "u", "", "name of the user (default: ask)")
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return cmd
}

// login asks for what is missing, logs in and saves server and token in the configuration file. It
// fails with a usage error if it cannot ask.
func (c *cli) login(cmd *cobra.Command, server, name string, stdin bool) error {
	api, err := c.newClient(server, "")
	if err != nil {
		return err
	}
	in := bufio.NewReader(c.in)
	if name == "" {
		if stdin {
			return usageError(cmd, errors.New("--password-stdin needs --user"))
		}
		if name, err = c.prompt(in, "User: "); err != nil {
			return err
		}
	}
	password, err := c.password(cmd, in, stdin)
	if err != nil {
		return err
	}
	session, err := api.Login(cmd.Context(), name, password)
	if err != nil {
		return err
	}
	if session.MustChange {
		if err := c.changeInitialPassword(cmd, api.WithToken(session.Token), stdin, password); err != nil {
			return err
		}
	}
	file, err := clientConfig{Server: api.BaseURL(), Token: session.Token}.save()
	if err != nil {
		return fmt.Errorf("keep the token: %w", err)
	}
	return c.show(map[string]any{"server": api.BaseURL(), "user": name, "expires_at": session.ExpiresAt, "config": file, "must_change_password": session.MustChange && stdin},
		"Logged in to %s as %s; kept in %s", api.BaseURL(), name, file)
}

// prompt prints a prompt to standard error and reads a line from in. It fails at the end of the
// input.
func (c *cli) prompt(in *bufio.Reader, prompt string) (string, error) {
	c.printError("%s", prompt)
	line, err := in.ReadString('\n')
	if err != nil && (err != io.EOF || line == "") {
		return "", fmt.Errorf("read the answer to %q: %w", strings.TrimSpace(prompt), err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// password returns the password without a line end: all of in if stdin is set, else typed at the
// terminal. It fails with a usage error without a terminal.
func (c *cli) password(cmd *cobra.Command, in *bufio.Reader, stdin bool) (string, error) {
	if stdin {
		raw, err := io.ReadAll(io.LimitReader(in, 64<<10))
		return strings.TrimRight(string(raw), "\r\n"), err
	}
	if !isTerminal(c.in) {
		return "", usageError(cmd, errors.New("standard input is not a terminal: give the password with --password-stdin"))
	}
	c.printError("Password: ")
	raw, err := term.ReadPassword(int(c.in.(*os.File).Fd()))
	c.printError("\n")
	return string(raw), err
}
