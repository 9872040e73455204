//go:build manual

package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// init adds the command write-manual, which scripts/release runs. Binaries of a release lack it.
func init() { serverCommands = append(serverCommands, newManualCommand) }

// newManualCommand returns the command `write-manual MAN COMPLETIONS`: write a manual page for each
// command and the completions of each shell into two directories.
func newManualCommand() *cobra.Command {
	return &cobra.Command{
		Use: "write-manual MAN COMPLETIONS", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			for _, dir := range args {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			in := func(shell string) string { return filepath.Join(args[1], shell) }
			return errors.Join(
				doc.GenManTree(root, &doc.GenManHeader{Source: "SmartDrive", Manual: "SmartDrive"}, args[0]), // with the date of SOURCE_DATE_EPOCH
				root.GenBashCompletionFileV2(in("bash"), true),
				root.GenZshCompletionFile(in("zsh")),
				root.GenFishCompletionFile(in("fish"), true),
				root.GenPowerShellCompletionFileWithDesc(in("powershell")),
			)
		},
	}
}
