package outbox

// LookAt sets the number of retained records of a topic that a run of Trim examines.
func (o *Outbox) LookAt(n int) { o.examine = n }
