// Package bench holds the benchmarks behind docs/performance.md. Each prints a ratio to a baseline
// that ran within the same minute on the same machine, because absolute figures of a shared machine
// mean little.
//
//	go test ./bench -run XXX -bench Upload -benchtime 1x
//
// Servers run in separate processes: the real binary, and this test binary started again as the
// bare server. So the CPU seconds of a server do not include the client's.
//
// Beware: a virtual machine returns freed memory to its host after some two seconds, and touching
// it again costs over 2 s of system time per GiB. So before each run that moves a GiB, 1.4 GiB are
// written and deleted.
package bench
