// Package disktest gives tests a disk whose power goes when they say so. There is one on Linux.
package disktest
