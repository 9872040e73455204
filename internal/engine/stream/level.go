package stream

import "time"

// Level is a place where failed records wait, all for the same time, so that the first in is the
// first due. On Kafka it is the topic "smartdrive.delay.<Name>".
type Level struct {
	Name  string
	Delay time.Duration
}

// The first level outlives a restart of something, the last one a person who is asleep: after it a
// record has been tried five times over 71 minutes and needs somebody to look at it.
var levels = [...]Level{
	{"5s", 5 * time.Second},
	{"1m", time.Minute},
	{"10m", 10 * time.Minute},
	{"1h", time.Hour},
}

// Levels returns the levels in the order in which a record passes them.
func Levels() []Level { return append([]Level(nil), levels[:]...) }

// levelAfter returns where a record waits that has failed so many times (from 1 on); false means
// that it is dead.
func levelAfter(levels []Level, failures int) (Level, bool) {
	if failures > len(levels) {
		return Level{}, false
	}
	return levels[failures-1], true
}
