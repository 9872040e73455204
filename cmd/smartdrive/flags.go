package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// transferFlags are the flags that tune uploads and downloads.
type transferFlags struct {
	parallel    int
	connections int
	partSize    string
	retryFor    time.Duration
}

// add adds the flags that put and get have in common.
func (t *transferFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&t.parallel, "parallel", 4, "parts of one file to transfer in parallel")
	f.IntVar(&t.connections, "connections", 16, "connections to use when there are many files")
	f.StringVar(&t.partSize, "part-size", "8MiB", "part size; choose a smaller one if a proxy limits request bodies")
	f.DurationVar(&t.retryFor, "give-up", 15*time.Minute, "how long to keep retrying while nothing succeeds")
}

// uploadOptions returns the upload options of the flags. An invalid part size is a usage error.
func (t *transferFlags) uploadOptions(cmd *cobra.Command) (client.UploadOptions, error) {
	size, err := parseSize(t.partSize)
	if err != nil {
		return client.UploadOptions{}, usageError(cmd, fmt.Errorf("--part-size: %w", err))
	}
	return client.UploadOptions{Parallel: t.parallel, PartSize: size, RetryFor: t.retryFor, Files: t.connections}, nil
}

// connectTransfer connects and creates an uploader or downloader with the flags' options.
func connectTransfer[T any](
	c *cli, cmd *cobra.Command, t transferFlags, makes func(*client.Client, client.UploadOptions) (T, error),
) (api *client.Client, mover T, err error) {
	tune, err := t.uploadOptions(cmd)
	if err != nil {
		return nil, mover, err
	}
	c.retryFor = t.retryFor
	if api, err = c.connect(); err != nil {
		return nil, mover, err
	}
	if mover, err = makes(api, tune); err != nil {
		err = usageError(cmd, err)
	}
	return api, mover, err
}

// singleSummary reports the result of a single file to o.Item and returns its summary.
func singleSummary(o client.TreeOptions, item client.Item) (sum client.Summary) {
	o.OnItem(item)
	sum.Count(item)
	return sum
}

// parseSize parses a positive number of bytes with an optional unit: 1048576, 512KiB, 8MiB, 1GiB.
// K, M, G and T mean KiB, MiB, GiB and TiB.
func parseSize(s string) (int64, error) {
	text := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(s), "B"), "i")
	shift := 0
	if i := strings.IndexAny("KMGT", lastByte(text)); i >= 0 && text != "" {
		shift, text = 10*(i+1), text[:len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n<<shift>>shift != n {
		return 0, fmt.Errorf("%q is not a size such as 8MiB", s)
	}
	return n << shift, nil
}

// lastByte returns the last byte of s, "-" if s is empty.
func lastByte(s string) string {
	if s == "" {
		return "-"
	}
	return s[len(s)-1:]
}

// conflictFlag adds the flag --conflict, stored in to, with its shell completion.
func conflictFlag(cmd *cobra.Command, to *string, def string) {
	cmd.Flags().StringVar(to, "conflict", def, "when the name is taken: fail, rename or replace")
	_ = cmd.RegisterFlagCompletionFunc("conflict", cobra.FixedCompletions( // fails only for an unknown flag
		[]cobra.Completion{"fail", "rename", "replace"}, cobra.ShellCompDirectiveNoFileComp))
}

// conflictOf parses a conflict policy. An unknown one is a usage error.
func conflictOf(cmd *cobra.Command, s string) (client.Conflict, error) {
	switch c := client.Conflict(s); c {
	case client.Fail, client.Rename, client.Replace:
		return c, nil
	}
	return "", usageError(cmd, fmt.Errorf("--conflict: %q is none of fail, rename, replace", s))
}
