package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"smartdrive/internal/app"
	"smartdrive/internal/base/config"
	"smartdrive/internal/base/telemetry"
)

const serveLong = `Serve the drive from a data directory, which holds the database and the files; nothing else has to be installed. With --db,
--redis and --blobs s3://..., and optionally --kafka, several instances serve it together.

Standard output gets one line, "SmartDrive is ready at URL"; the log goes to standard error. Every flag can also be set by an
environment variable (--upload-idle is SMARTDRIVE_UPLOAD_IDLE) or by a key of the YAML file that --config names. A flag overrides
a variable, a variable overrides the file. SIGHUP reloads the certificate.`

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve the drive",
		Long:    serveLong,
		Example: "  smartdrive serve\n  smartdrive serve --data /srv/drive --listen 0.0.0.0:8320",
		Args:    usageArgs(cobra.NoArgs),
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return asServer(serve(cmd))
	}
	return cmd
}

// asServer gives what ended a server its exit code. A missing file or a full disk is the server's
// here, not what a client asked for; and who is stopped may fail at that, but not because of it.
func asServer(err error) error {
	var coded *exitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{exitFailed, err, !errors.Is(err, context.Canceled)}
}

func serve(cmd *cobra.Command) error {
	cfg, err := config.Load(cmd.Flags(), os.Environ(), os.ReadFile)
	if err != nil {
		return usage(cmd, err)
	}
	cfg.Level = &slog.LevelVar{}
	cfg.Level.Set(cfg.LogLevel)
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), cfg.Level, cfg.LogFormat)
	if err != nil {
		return err
	}
	for _, note := range cfg.Notes {
		log.Warn("a variable that is not a setting", "note", note)
	}
	cfg.Decoder = decoder()
	limitMemory()
	collectLater()
	raiseProcs()
	ctx := cmd.Context()
	a, err := app.Open(ctx, cfg, log)
	if failed, ok := errors.AsType[*app.StartError](err); ok && failed.Configuration() {
		return withCode(exitUsage, err)
	}
	if err != nil {
		return err
	}
	err = a.Run(ctx, buildVersion(), reloads(ctx), func(url string) {
		fmt.Fprintf(cmd.OutOrStdout(), "SmartDrive is ready at %s\n", strings.TrimSuffix(url, "/"))
	})
	if closeErr := a.Close(); err == nil {
		err = closeErr
	}
	return err
}

// softMemory is where the collector of garbage begins to run more often, in bytes, unless
// GOMEMLIMIT says something else. What the server holds is bounded by budgets; without this it lets
// as much garbage pile up beside it.
const softMemory = 256 << 20

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}

// raiseProcs makes twice as many places for goroutines as there are processors, unless GOMAXPROCS
// says something else. A goroutine that waits for the disk keeps its place until the runtime takes
// that away, 20 µs later at the earliest. If there were no more places than processors, one of
// these would have nothing to do meanwhile (decision 146).
func raiseProcs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	}
}

// reloads passes on SIGHUP.
func reloads(ctx context.Context) <-chan struct{} {
	signals, out := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(signals, reloadSignals...)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out
}
