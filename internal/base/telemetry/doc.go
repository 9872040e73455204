// Package telemetry is how SmartDrive tells its operator what it does: a slog.Logger that cannot
// leak secrets, and a registry of metrics.
//
// Metrics are about the system, never about people: no name, path, id of a user, account or file is
// a label, so that /metrics can be kept and shown. The library that holds them does not show
// through this package: others hand in functions.
package telemetry
