package activity

// LookAt makes a run of Purge look at so many entries that have to stay.
func (l *Log) LookAt(n int) { l.scanLimit = n }
