// Package system tests the real binary from outside, as people, supervisors and broken machines
// meet it: how it starts, stops and refuses to; what it makes of wrong directories and full disks;
// what its limits look like over HTTP; and the scenarios of hostile or unlucky uploads that need a
// process. Each test has an installation and a server of its own.
package system
