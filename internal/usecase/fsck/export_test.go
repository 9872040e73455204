package fsck

// Waiting returns the number of administrators that wait for a background pass to yield.
func (c *Checker) Waiting() int { return int(c.waiting.Load()) }
