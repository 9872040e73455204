// Package telemetry provides the server's logger, which redacts secrets, and its registry of
// metrics.
//
// Metrics describe the system, never people: no name, path, or id of a user, account or file is a
// label, so that /metrics can be stored and shared. The metrics library is not visible to other
// packages; they pass functions.
package telemetry
