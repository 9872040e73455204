package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"smartdrive/internal/usecase/thumb"
)

const decodeCommand = "decode-image"

var errNotDecoded = errors.New("not decoded")

// newDecodeCommand is what the server starts this binary with to decode one image; nobody else
// needs it.
func newDecodeCommand() *cobra.Command {
	return &cobra.Command{
		Use: decodeCommand, Hidden: true, DisableFlagParsing: true, Short: "Decode an image for the server",
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := thumb.Serve(args, cmd.InOrStdin(), cmd.OutOrStdout()); code != exitOK {
				return withCode(code, errNotDecoded)
			}
			return nil
		},
	}
}

// decoder is the command line that runs newDecodeCommand. The name that Linux has for the program
// that runs stays right when the file was replaced by a newer one.
func decoder() []string {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return []string{running, decodeCommand}
	}
	if self, err := os.Executable(); err == nil {
		return []string{self, decodeCommand}
	}
	return nil
}
