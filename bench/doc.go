// Package bench holds the benchmarks behind docs/performance.md. Each prints a ratio against a
// baseline that ran in the same minute on the same machine, because absolute figures of a shared
// machine mean little.
//
//	go test ./bench -run XXX -bench Upload -benchtime 1x
//
// Servers run as processes of their own: the real binary, and this test binary started again as the
// bare server. So the CPU seconds of a server are its own, and the client's are not among them.
//
// The trap of every benchmark here: a virtual machine gives freed memory back to its host after
// some two seconds, and the first touch of it again costs over 2 s of system time per GiB. Before
// each run that moves a GiB, 1.4 GiB are written and deleted.
package bench
