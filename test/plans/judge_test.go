package plans

import "testing"

// The judge of plans detects every kind of bad plan.
func TestJudgeOfPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		steps []string
		wrong string
	}{
		{[]string{"SEARCH n USING INDEX nodes_slot (parent_id=? AND slot=?)"}, ""},
		{[]string{"SEARCH nodes USING PRIMARY KEY (id>?)"}, ""},
		{[]string{"SCAN CONSTANT ROW"}, ""},
		{[]string{"SEARCH b USING PRIMARY KEY (id=?)", "LIST SUBQUERY 1", "SCAN 3-ROW VALUES CLAUSE"}, ""},
		{[]string{"CO-ROUTINE oldest", "SEARCH outbox USING INDEX outbox_topic (topic=?)", "SCAN oldest"}, ""},
		{[]string{"SEARCH uploads USING INDEX uploads_open (account_id=?)", "USE TEMP B-TREE FOR ORDER BY"}, ""},
		{[]string{"SCAN nodes"}, "SCAN nodes"},
		{[]string{"SCAN users USING COVERING INDEX users_account"}, "SCAN users USING COVERING INDEX users_account"},
		{[]string{"SEARCH t USING AUTOMATIC COVERING INDEX (root_id=?)"}, "SEARCH t USING AUTOMATIC COVERING INDEX (root_id=?)"},
		{[]string{"SEARCH released USING INDEX released_age (released_at<?)", "USE TEMP B-TREE FOR ORDER BY"}, "USE TEMP B-TREE FOR ORDER BY"},
	} {
		if got := judgeSQLite(c.steps); got != c.wrong {
			t.Errorf("%v: %q, want %q", c.steps, got, c.wrong)
		}
	}
}
