package account

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// TestLookalikeNamesAreRefused: names that only look different are refused: in compatibility
// characters, in letters of several scripts, or in another script's letters that look like an
// existing name, in both directions.
func TestLookalikeNamesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "admin", false)
	f.add(t, "cope", false)
	f.add(t, "\u043e\u0440\u0430", false)       // ора, of Cyrillic letters
	f.add(t, "\u03a6\u039f\u03a1\u0391", false) // ΦΟΡΑ, of Greek ones
	for _, name := range []string{"\uff41nn", "\u0430dmin", "b\u043eb", "\u03bfmar", "\u216f", "ann\u0410"} {
		_, err := f.users.Draft(t.Context(), name, "correct horse battery", false)
		wantKind(t, err, drive.BadRequest)
	}
	for name, want := range map[string]drive.Kind{
		"\u0441\u043e\u0440\u0435": drive.NameTaken, "\u0421\u041e\u0420\u0415": drive.NameTaken, // cope, COPE
		"opa": drive.NameTaken, "\u03bf\u03c1\u03b1": drive.NameTaken, // Latin and Greek letters that look like Cyrillic ones
		"\u0424\u041e\u0420\u0410": drive.NameTaken, "fopa": 0, // Cyrillic that looks like Greek
		"\u0410\u043d\u043d\u0430": 0, "\u738b\u4f1f Wei": 0, "\u039c\u03b1\u03c1\u03af\u03b1": 0, "Zo\u00eb-2": 0, "\u0441\u043e\u0440\u0430": 0,
	} {
		d, err := f.users.Draft(t.Context(), name, "correct horse battery", false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := f.users.Create(ctx, tx, d)
			return err
		})
		if want == 0 && err != nil || want != 0 && !drive.IsKind(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
