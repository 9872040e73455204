package outbox

// LookAt makes a run of Trim look at so many records of a topic that have to stay.
func (o *Outbox) LookAt(n int) { o.examine = n }
