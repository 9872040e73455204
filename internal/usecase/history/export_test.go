package history

// Woken reports whether the writer was woken since the last call.
func (d *Downloads) Woken() bool {
	select {
	case <-d.wake:
		return true
	default:
		return false
	}
}
