// Package usertest runs tests as an unprivileged user, for a suite that root runs.
package usertest
