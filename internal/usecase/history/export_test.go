package history

// Woken reports whether the writer was woken since the last call.
func (d *Downloads) Woken() bool {
	select {
	case <-d.half:
		return true
	default:
		return false
	}
}
