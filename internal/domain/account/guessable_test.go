package account

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func TestGuessablePasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]bool{
		"password": true, "Password123!": true, "p4$$w0rd2024": true, "passwordpassword": true, "qwertyuiop": true, "1234567890": true,
		"0987654321": true, "abcdefghij": true, "aaaaaaaaaaaa": true, "abcabcabcabc": true, "iloveyou2024": true, "letmein!!!": true,
		"19871224-1224": true, "annabella1": true, "1allebanna": true, "annabellaannabella": true, "ANNABELLA99": true,
		"SmartDrive2026": true, "correcthorsebatterystaple": true, "админ админ 1": false, "zebra-jam1": false, "correct horse battery staple": true,
		"correct horse": false, "wrong horse": false, "annabella and the sea": false, "8364-2710-5529-1836": false, "床前明月光疑是": false,
		"Tr0ub4dor&3x": false, "horse of a different colour": false,
	} {
		if got := isGuessable(password, "Annabella"); got != want {
			t.Errorf("%q is guessable: %v", password, got)
		}
	}
}

func TestNewPasswordIsCheckedAgainstName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "annabella", false)
	who := f.who(t, f.login(t, "annabella").Secret)
	for _, next := range []string{"annabella1", "password123"} {
		wantReason(t, f.sessions.ChangePassword(t.Context(), who, secret, next, client), drive.BadRequest, string(drive.Guessable))
	}
}
