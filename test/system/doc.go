// Package system tests the real binary from outside: starting, stopping and refusing to start;
// wrong directories and full disks; limits over HTTP; and scenarios of hostile or interrupted
// uploads that need a process. Each test has its own installation and server.
package system
