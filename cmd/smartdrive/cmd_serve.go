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

	"example.org/smartdrive/internal/app"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/telemetry"
)

// serveLong is the help of `smartdrive serve`.
const serveLong = `Serve the drive from a data directory, which holds the database and the files; nothing else has to be installed. With --db,
--redis and --blobs s3://..., and optionally --kafka, several instances serve it together.

Standard output gets one line, "SmartDrive is ready at URL"; the log goes to standard error. Every flag can also be set by an
environment variable (--upload-idle is SMARTDRIVE_UPLOAD_IDLE) or by a key of the YAML file that --config names. A flag overrides
a variable, a variable overrides the file. SIGHUP reloads the certificate.`

// newServeCommand returns the command `serve`: serve the drive.
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
		return serverError(serve(cmd))
	}
	return cmd
}

// serverError sets the exit code of an error that ended the server. Every such error is a failure,
// even a missing file or a full disk, and counts even if the server was told to stop, unless it
// only reports the stop.
func serverError(err error) error {
	var coded *exitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{exitFailed, err, !errors.Is(err, context.Canceled)}
}

// serve loads the configuration and runs the server until it is stopped. It fails with exitUsage
// for an invalid configuration. It changes the memory limit and garbage collection of the process.
func serve(cmd *cobra.Command) error {
	cfg, err := config.Load(cmd.Flags(), os.Environ(), os.ReadFile)
	if err != nil {
		return usageError(cmd, err)
	}
	cfg.Level = &slog.LevelVar{}
	cfg.Level.Set(cfg.LogLevel)
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), cfg.Level, cfg.LogFormat)
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		log.Warn("ignoring an environment variable that is not a setting; remove it or correct its name", "warning", warning)
	}
	cfg.Decoder = decoder()
	setMemoryLimit()
	delayCollection()
	raiseMaxProcs()
	ctx := cmd.Context()
	a, err := app.Open(ctx, cfg, log)
	if failed, ok := errors.AsType[*app.StartError](err); ok && failed.Configuration() {
		return withCode(exitUsage, err)
	}
	if err != nil {
		return err
	}
	err = a.Run(ctx, telemetry.ReadBuild().Version, notifyReloads(ctx), func(url string) {
		fmt.Fprintf(cmd.OutOrStdout(), "SmartDrive is ready at %s\n", strings.TrimSuffix(url, "/"))
	})
	if closeErr := a.Close(); err == nil {
		err = closeErr
	}
	return err
}

// softMemoryLimit is the Go memory limit in bytes unless GOMEMLIMIT is set. Budgets bound the live
// heap; the limit makes the collector run before as much garbage accumulates.
const softMemoryLimit = 192 << 20

// setMemoryLimit sets softMemoryLimit unless GOMEMLIMIT is set.
func setMemoryLimit() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemoryLimit)
	}
}

// raiseMaxProcs doubles GOMAXPROCS unless the environment sets it. A goroutine in a disk system
// call keeps its P for at least 20 µs; with one P per processor, the processor would be idle
// meanwhile (decision 146).
func raiseMaxProcs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	}
}

// notifyReloads returns a channel that receives a value after SIGHUP until ctx ends. Signals that
// arrive while one is unread are merged.
func notifyReloads(ctx context.Context) <-chan struct{} {
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
