// Package filelock locks a file to keep a second process out of a directory. The lock ends with the
// process, even after a crash. It does not exclude processes on other machines.
package filelock
