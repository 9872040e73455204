package nextcloud

import "smartdrive/internal/base/drive"

// Waiting is how many requests of a transfer there are.
func (h *Head) Waiting(user drive.UserID, id string) int {
	h.lines.mu.Lock()
	defer h.lines.mu.Unlock()
	if l := h.lines.all[user.String()+id]; l != nil {
		return l.users
	}
	return 0
}
