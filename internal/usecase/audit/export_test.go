package audit

// Waiting returns how many administrators wait for a pass in the background to step aside.
func (a *Auditor) Waiting() int { return int(a.waiting.Load()) }
