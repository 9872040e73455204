package stream

import "time"

// Level is a delay level: failed records wait there for the same time, so the first to arrive is
// the first due. On Kafka it is the topic "smartdrive.delay.<Name>".
type Level struct {
	Name  string
	Delay time.Duration
}

// levels are the delay levels. The first level outlasts a restart of a dependency, the last a
// night. After the last, a record has failed five attempts over 71 minutes and needs an
// administrator.
var levels = [...]Level{
	{"5s", 5 * time.Second},
	{"1m", time.Minute},
	{"10m", 10 * time.Minute},
	{"1h", time.Hour},
}

// Levels returns a copy of the delay levels, in the order in which a record passes through them.
func Levels() []Level { return append([]Level(nil), levels[:]...) }

// levelAfter returns the level after the given number of failures, at least 1. It returns false if
// no level is left and the record is dead.
func levelAfter(levels []Level, failures int) (Level, bool) {
	if failures > len(levels) {
		return Level{}, false
	}
	return levels[failures-1], true
}
