// Package disktest provides a disk whose power fails on demand. It exists only on Linux.
package disktest
