package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/usecase/thumb"
)

// decodeCommand is the name of the hidden command that decodes an image.
const decodeCommand = "decode-image"

// errNotDecoded is the cause of a failed decode whose reason was already printed.
var errNotDecoded = errors.New("not decoded")

// newDecodeCommand returns the hidden command with which the server runs this binary to decode one
// image in a separate process.
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

// decoder returns the command line that runs newDecodeCommand. On Linux it names the running
// program by /proc, so that it stays right after the file was replaced by a newer one.
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
