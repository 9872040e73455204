package fsck

// Waiting returns how many administrators wait for a pass in the background to step aside.
func (a *Checker) Waiting() int { return int(a.waiting.Load()) }
