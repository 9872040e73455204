package nextcloud

import "example.org/smartdrive/internal/base/drive"

// Waiting is how many requests of a transfer there are.
func (h *Head) Waiting(user drive.UserID, id string) int {
	h.transferLocks.mu.Lock()
	defer h.transferLocks.mu.Unlock()
	if l := h.transferLocks.all[user.String()+id]; l != nil {
		return l.users
	}
	return 0
}
