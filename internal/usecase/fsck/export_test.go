package fsck

// Waiting returns the number of administrators that wait for a background pass to yield.
func (a *Checker) Waiting() int { return int(a.waiting.Load()) }
