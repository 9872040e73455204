// Package filelock is the lock on a file that keeps two processes off one directory. It ends with
// the process, however that ends, and says nothing about other machines.
package filelock
