package activity

// LookAt sets the number of retained entries that one Purge scans.
func (l *Log) LookAt(n int) { l.scanLimit = n }
