package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/filelock"
)

// activityFile is the output file of an activity export. Only whole lines are written.
type activityFile struct {
	to   io.Writer
	file *os.File // nil: standard output
	last string   // id of the last entry in the file; empty: none
}

// maxLastLine bounds the length of the last line in bytes.
const maxLastLine = 1 << 20

// openActivityFile opens and locks the output file of an export, positioned after its last whole
// line; a truncated line of a killed command is removed. An empty name means standard output. It
// fails with errNoExport if the file is not an export, and with errTwoExports if another command
// has locked it.
func openActivityFile(name string, out io.Writer) (*activityFile, error) {
	if name == "" {
		return &activityFile{to: out}, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	a := &activityFile{to: f, file: f}
	held, err := filelock.Try(f)
	if err == nil && held {
		err = errTwoExports
	}
	if err == nil {
		err = a.seekEnd()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return a, nil
}

var (
	// errNoExport reports that the file of --output has other content.
	errNoExport = errors.New("there is something else in it than an export of the activity")
	// errTwoExports reports that another command has the file of --output locked.
	errTwoExports = errors.New("another command is writing to it")
)

// seekEnd sets a.last to the id of the file's last entry, cuts off a torn last line and moves to
// the end for appending. An empty file leaves a.last empty. It fails with errNoExport, and changes
// nothing, if the file is no export.
func (a *activityFile) seekEnd() error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	begin := max(0, info.Size()-maxLastLine)
	tail := make([]byte, info.Size()-begin)
	if _, err := io.ReadFull(io.NewSectionReader(a.file, begin, int64(len(tail))), tail); err != nil {
		return err
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	if end == 0 && begin > 0 {
		return errNoExport
	}
	if end > 0 {
		line := tail[bytes.LastIndexByte(tail[:end-1], '\n')+1 : end]
		var h client.ActivityEntry
		if json.Unmarshal(line, &h) != nil || h.ID == "" {
			return errNoExport
		}
		a.last = h.ID
	} else if len(tail) > 0 && tail[0] != '{' {
		return errNoExport
	}
	if err := a.file.Truncate(begin + int64(end)); err != nil {
		return err
	}
	_, err = a.file.Seek(0, io.SeekEnd)
	return err
}

// write writes all entries, closes the file, and returns the number of entries.
func (a *activityFile) write(all iter.Seq2[client.ActivityLine, error]) (n int, err error) {
	for h, failed := range all {
		if err = failed; err == nil {
			_, err = a.to.Write(h.Line)
		}
		if err != nil {
			break
		}
		n++
	}
	if a.file == nil {
		return n, err
	}
	return n, errors.Join(err, a.file.Sync(), a.file.Close())
}

// exportActivityLong ends the help of both export commands.
const exportActivityLong = `Each line is an entry as JSON, the oldest first. A connection that breaks is made again. With --output FILE the entries go to the end of the file; where
it has some already, only those that came after its last one are fetched: run the command again whenever you like. --after ID goes on after an entry.`

// activityExport returns the command `export [PATH]`: export the activity log as JSON lines; a
// second run continues where the first stopped.
func (c peopleCommands) activityExport() *cobra.Command {
	var types, after, output string
	cmd := &cobra.Command{
		Use:   "export [PATH]",
		Short: "Export the activity log as JSON lines; a second run continues where the first stopped",
		Long: `Write all that happened in your drive, in the space //SPACE, or at a file or folder and what lies in it directly, as far as it is kept.
` + exportActivityLong,
		Example: `  smartdrive activity export > activity.ndjson
  smartdrive activity export //Design --output design.ndjson`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if after != "" && output != "" {
				return usageError(cmd, errors.New("--after says where to go on, and so does the file of --output"))
			}
			api, in, err := c.activityQuery(cmd.Context(), args)
			if err != nil {
				return err
			}
			in.Types = types
			to, err := openActivityFile(output, c.out)
			if err != nil {
				return err
			}
			if to.last != "" {
				after = to.last
			}
			_, err = to.write(api.ExportActivity(cmd.Context(), in, after))
			return err
		},
	}
	activityExportFlags(cmd, &types, &after, &output)
	return cmd
}

// activityExportFlags adds the flags of both export commands; they are stored in types, after and
// output.
func activityExportFlags(cmd *cobra.Command, types, after, output *string) {
	cmd.Flags().StringVar(types, "type", "", "only these types, such as node.moved, or node for all that begin with it, separated by commas")
	cmd.Flags().StringVar(after, "after", "", "only what came after the entry with this id")
	cmd.Flags().StringVarP(output, "output", "o", "", "append to this file, after its last entry")
}

// activityCommand returns the command `admin activity [NAME]`: export the security log of all
// users, or of one, as JSON lines.
func (a *adminCLI) activityCommand() *cobra.Command {
	var types, after, output string
	cmd := &cobra.Command{
		Use:   "activity [NAME]",
		Short: "Export the security log of all users, or of one, as JSON lines",
		Long: `Write the logins of all users, the failed ones, tokens and app passwords, changes of passwords, identity providers, and settings of the server, or those of the user NAME. What
users do with files is not among it. With MySQL the last minute is not, either. ` + exportActivityLong,
		Example: `  smartdrive admin activity --output /var/log/smartdrive-activity.ndjson
  smartdrive admin activity wang --type login`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if after != "" && output != "" {
				return usageError(cmd, errors.New("--after says where to go on, and so does the file of --output"))
			}
			run := func(c *connection, user string) error {
				api, err := client.New(client.Options{BaseURL: "http://localhost", HTTPClient: c.http})
				if err != nil {
					return err
				}
				to, err := openActivityFile(output, a.out)
				if err != nil {
					return err
				}
				if to.last != "" {
					after = to.last
				}
				_, err = to.write(api.ExportActivityOf(cmd.Context(), user, types, after))
				return err
			}
			if len(args) == 0 {
				return a.withConnection(cmd.Context(), func(c *connection) error { return run(c, "") })
			}
			return a.withUser(cmd.Context(), args[0], func(c *connection, u client.User) error { return run(c, u.ID) })
		},
	}
	activityExportFlags(cmd, &types, &after, &output)
	return cmd
}
