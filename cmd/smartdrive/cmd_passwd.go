package main

import (
	"bufio"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"example.org/smartdrive/client"
)

// newPasswdCommand returns the command `passwd`: change your password; all other logins and all
// tokens end.
func newPasswdCommand(c *cli) *cobra.Command {
	var stdin bool
	cmd := &cobra.Command{
		Use:   "passwd",
		Short: "Change your password; all other logins and all tokens end",
		Long: `Change your password. All other logins and all tokens end. The passwords are prompted for without echo, or read from
standard input with --password-stdin: the current one on the first line, the new one on the second.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			current, next, err := c.readPasswords(cmd, stdin)
			if err != nil {
				return err
			}
			return c.setPassword(cmd, api, current, next)
		},
	}
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the current and the new password from two lines of standard input")
	return cmd
}

// setPassword changes the password and prints the success. It fails with the server's error.
func (c *cli) setPassword(cmd *cobra.Command, api *client.Client, current, next string) error {
	if err := api.SetPassword(cmd.Context(), current, next); err != nil {
		return err
	}
	return c.show(map[string]bool{"changed": true}, "The password is changed.")
}

// readPasswords reads the current and the new password from the terminal, or from two lines of
// standard input with stdin set.
func (c *cli) readPasswords(cmd *cobra.Command, stdin bool) (current, next string, err error) {
	if stdin {
		lines := bufio.NewScanner(c.in)
		for _, p := range []*string{&current, &next} {
			if !lines.Scan() {
				return "", "", usageError(cmd, errors.New("--password-stdin needs two lines: the current password and the new one"))
			}
			*p = strings.TrimRight(lines.Text(), "\r")
		}
		return current, next, nil
	}
	if current, err = c.readHidden(cmd, "Current password: "); err == nil {
		next, err = c.newPassword(cmd)
	}
	return current, next, err
}

// newPassword asks for a new password twice. It fails if the two differ or standard input is no
// terminal.
func (c *cli) newPassword(cmd *cobra.Command) (string, error) {
	next, err := c.readHidden(cmd, "New password: ")
	if err != nil {
		return "", err
	}
	again, err := c.readHidden(cmd, "New password again: ")
	if err == nil && again != next {
		err = errors.New("the two new passwords differ")
	}
	return next, err
}

// readHidden prompts for a password and reads it without echo. It fails with a usage error if
// standard input is no terminal.
func (c *cli) readHidden(cmd *cobra.Command, prompt string) (string, error) {
	if !isTerminal(c.in) {
		return "", usageError(cmd, errors.New("standard input is not a terminal: give the passwords with --password-stdin"))
	}
	c.printError("%s", prompt)
	raw, err := term.ReadPassword(int(c.in.(*os.File).Fd()))
	c.printError("\n")
	return string(raw), err
}

// changeInitialPassword asks a user, whose password an administrator has set, for a new one and
// sets it; the server permits nothing else before. If the password came from standard input, it
// asks for nothing, prints a note and returns nil.
func (c *cli) changeInitialPassword(cmd *cobra.Command, api *client.Client, stdin bool, current string) error {
	if stdin {
		c.printError("An administrator chose this password: nothing works before \"smartdrive passwd\" has set another one.\n")
		return nil
	}
	c.printError("An administrator chose this password. Set one of your own.\n")
	next, err := c.newPassword(cmd)
	if err != nil {
		return err
	}
	return api.SetPassword(cmd.Context(), current, next)
}
