package main

import "database/sql"

// ledgers compares every ledger row with the sums of the rows that it summarizes (Q1-Q3, Q6), and
// its sum with the total (Q4).
func (c *checker) ledgers() error {
	sums := map[string]map[string]int64{}
	for invariant, query := range map[string]string{
		"Q1": `SELECT account_id, SUM(size) FROM (SELECT account_id, size FROM versions UNION ALL SELECT account_id, charged FROM export_pins) held GROUP BY account_id`,
		"Q2": `SELECT account_id, SUM(reserved) FROM uploads WHERE state IN ('active', 'sealing') GROUP BY account_id`,
		"Q6": `SELECT f.account_id, SUM(f.size) FROM owed_files f JOIN released r ON r.file = f.file GROUP BY f.account_id`,
		"Q3": `SELECT account_id, SUM(held) FROM uploads WHERE state IN ('parked', 'reclaiming') GROUP BY account_id`,
	} {
		var err error
		if sums[invariant], err = c.db.sums(query); err != nil {
			return err
		}
	}
	err := c.db.each(func(scan func(...any) error) error {
		var account string
		var total sql.NullInt64
		var finished, unfinished, reserved, owed int64
		if err := scan(&account, &total, &finished, &unfinished, &reserved, &owed); err != nil {
			return err
		}
		c.accounts++
		for invariant, has := range map[string]int64{"Q1": finished, "Q2": reserved, "Q3": unfinished, "Q6": owed} {
			if want := sums[invariant][account]; has != want {
				c.found(invariant, "the ledger of account %s says %d, its rows sum up to %d", account, has, want)
			}
			delete(sums[invariant], account)
		}
		if sum := finished + unfinished + reserved; total.Valid && sum > total.Int64 {
			c.found("Q4", "account %s has %d bytes of %d", account, sum, total.Int64)
		}
		return nil
	}, `SELECT account_id, total, finished, unfinished, reserved,
		COALESCE((SELECT size FROM owed WHERE owed.account_id = ledgers.account_id), 0) FROM ledgers`)
	if err != nil {
		return err
	}
	delete(sums, "Q6") // the remaining files belong to purged accounts
	for invariant, left := range sums {
		for account, n := range left {
			c.found(invariant, "account %s has %d bytes and no ledger", account, n)
		}
	}
	return nil
}

// none reports a finding for each row of a query of one column, the id of the subject.
func (c *checker) none(invariant, text, query string) error {
	return c.db.each(func(scan func(...any) error) error {
		var subject string
		err := scan(&subject)
		if err == nil {
			c.found(invariant, "%s %s", subject, text)
		}
		return err
	}, query)
}

// tree checks the consistency of accounts, trees, nodes, versions and the tables that refer to
// them.
func (c *checker) tree() error {
	for _, rule := range []struct{ invariant, text, query string }{
		{"Q1", "(account) has no ledger", `SELECT id FROM accounts WHERE id NOT IN (SELECT account_id FROM ledgers)`},
		{"P3", "(file) has no current version of its own", `SELECT n.id FROM nodes n LEFT JOIN versions v ON v.id = n.version_id AND v.node_id = n.id
			WHERE n.type = 'file' AND v.id IS NULL AND n.operation_id IS NULL`},
		{"P3", "(folder) has a version", `SELECT id FROM nodes WHERE type = 'folder' AND version_id IS NOT NULL`},
		{"Q1", "(version) belongs to a node of another account", `SELECT v.id FROM versions v JOIN nodes n ON n.id = v.node_id WHERE n.account_id <> v.account_id`},
		{"P3", "(node) lies in another account's folder, or in a file", `SELECT n.id FROM nodes n JOIN nodes p ON p.id = n.parent_id
			WHERE n.account_id <> p.account_id OR p.type <> 'folder'`},
		{"P3", "(node) has a slot that does not fit its state", `SELECT id FROM nodes WHERE parent_id IS NOT NULL AND
			slot <> CASE WHEN trashed_at > 0 THEN '/' || id ELSE name END`},
		{"P3", "(account) has a tree whose number of nodes is wrong", `SELECT account_id FROM trees t WHERE node_count <>
			(SELECT COUNT(*) FROM nodes n WHERE n.account_id = t.account_id AND n.parent_id IS NOT NULL)`},
		{"P3", "(node) changed after the last change of its tree", `SELECT n.id FROM nodes n JOIN trees t USING (account_id) WHERE n.seq > t.seq`},
		{"A1", "(node) has a grant that names another account", `SELECT g.node_id FROM grants g JOIN nodes n ON n.id = g.node_id
			WHERE n.account_id <> g.account_id`},
		{"A1", "(node) has a grant of a kind or role that there is none of", `SELECT node_id FROM grants WHERE kind NOT IN ('user', 'group')
			OR role NOT IN ('none', 'viewer', 'uploader', 'editor', 'manager')`},
		{"A1", "(node) has a mount that changes nothing, or that is nobody's", `SELECT node_id FROM mounts WHERE name = '' AND hidden = 0 AND shown = ''
			OR user_id NOT IN (SELECT id FROM users)`},
		{"A2", "(space) has no tree, or another root", `SELECT s.account_id FROM spaces s LEFT JOIN trees t ON t.account_id = s.account_id
			WHERE t.root_id IS NULL OR t.root_id <> s.root_id`},
		{"A2", "(account) is a user's and a space", `SELECT account_id FROM spaces WHERE account_id IN (SELECT account_id FROM users)`},
		{"E1", "(account) has a change of its tree that no row of activity tells of, or several do", `SELECT account_id FROM (SELECT account_id, seq,
			LAG(seq) OVER (PARTITION BY account_id ORDER BY id) AS before FROM activity WHERE seq > 0) WHERE seq <> before + 1`},
		{"E1", "(account) has a last change that the activity does not end with", `SELECT t.account_id FROM trees t JOIN
			(SELECT account_id, MAX(seq) AS last FROM activity WHERE seq > 0 GROUP BY account_id) a USING (account_id) WHERE a.last <> t.seq`},
		{"E1", "(node) changed last by what the activity tells of another one", `SELECT n.id FROM nodes n JOIN activity a
			ON a.account_id = n.account_id AND a.seq = n.seq WHERE a.node_id <> n.id`},
		{"E1", "(tombstone's node) was deleted, and the activity tells something else", `SELECT s.node_id FROM tombstones s JOIN activity a
			ON a.account_id = s.account_id AND a.seq = s.seq WHERE a.node_id <> s.node_id OR a.verb NOT IN ('node.deleted', 'node.left')`},
		{"E1", "(upload) has ended, and the activity does not tell so once", `SELECT u.id FROM uploads u WHERE u.state IN ('done', 'gone')
			AND u.ended_at >= (SELECT MIN(at) FROM activity a WHERE a.account_id = u.account_id) AND 1 <> (SELECT COUNT(*) FROM activity a
			WHERE a.account_id = u.account_id AND a.verb = 'upload.' || u.state AND a.data ->> 'upload' = u.id)`},
		{"E1", "(upload) goes on, or has ended in another way, and the activity tells of an end", `SELECT u.id FROM activity a JOIN uploads u
			ON u.id = a.data ->> 'upload' WHERE a.verb IN ('upload.done', 'upload.gone') AND a.verb <> 'upload.' || u.state`},
		{"E4", "(user) is told something and is not there", `SELECT user_id FROM notices WHERE user_id NOT IN (SELECT id FROM users)
			UNION SELECT user_id FROM notice_people WHERE user_id NOT IN (SELECT id FROM users)`},
		{"E4", "(user) was told what the activity of the account does not tell", `SELECT n.user_id FROM notices n JOIN users u ON u.id = n.user_id
			WHERE n.at >= (SELECT MIN(at) FROM activity) AND NOT EXISTS (SELECT 1 FROM activity a WHERE a.account_id = u.account_id
			AND a.verb = 'notice.told' AND (a.data ->> 'notice' = n.id OR n.what IN ('given', 'changed', 'taken')
			AND a.data ->> 'kind' = n.kind AND a.data ->> 'what' = n.what))`}, // one that took the place of another one has its entry
		{"E4", "(user) has notices to be mailed and has not said where", `SELECT DISTINCT user_id FROM notices WHERE mail = 1
			AND user_id NOT IN (SELECT user_id FROM notice_people)`},
		{"E4", "(user) has notices to be mailed that no mail goes with", `SELECT user_id FROM notice_people p WHERE state = 'confirmed' AND due_at = 0
			AND EXISTS (SELECT 1 FROM notices n WHERE n.user_id = p.user_id AND n.mail = 1)`},
		{"E5", "(user) has more notices than one may have", `SELECT user_id FROM notices GROUP BY user_id HAVING COUNT(*) > 1000`},
		{"N1", "(user) has stars and is not there", `SELECT user_id FROM stars WHERE user_id NOT IN (SELECT id FROM users)`},
		{"N1", "(user) has more stars than one may have", `SELECT user_id FROM stars GROUP BY user_id HAVING COUNT(*) > 1000`},
		{"N1", "(user) has refused creations and is not there", `SELECT user_id FROM key_conflicts WHERE user_id NOT IN (SELECT id FROM users)
			AND user_id <> '00000000-0000-0000-0000-000000000001'`},
		{"N6", "(node) has a number and is not there", `SELECT node_id FROM node_numbers WHERE node_id NOT IN (SELECT id FROM nodes)`},
		{"N6", "(lock) is on a node of another account, or of a kind that there is none of", `SELECT l.id FROM dav_locks l LEFT JOIN nodes n
			ON n.id = l.node_id WHERE n.account_id <> l.account_id OR l.scope NOT IN ('exclusive', 'shared')`},
		{"N6", "(lock) was taken where another one kept it out", `SELECT a.id FROM dav_locks a JOIN dav_locks b ON b.node_id = a.node_id AND b.id <> a.id
			WHERE 'exclusive' IN (a.scope, b.scope) AND b.created_at <= a.created_at AND b.expires_at > a.created_at`},
		{"N6", "(node) has properties that are another account's, or whose size is wrong", `SELECT p.node_id FROM dav_properties p
			LEFT JOIN nodes n ON n.id = p.node_id WHERE n.account_id <> p.account_id
			OR p.size <> LENGTH(CAST(p.space || p.name || p.value AS BLOB)) + 100`},
		{"N6", "(account) has more properties than one may have", `SELECT account_id FROM dav_properties GROUP BY account_id HAVING SUM(size) > 16777216`},
		{"N6", "(share) has two numbers, or one of nothing that can be shared", `SELECT number FROM share_numbers WHERE node_id = '' OR subject = ''
			OR number > 2147483647`},
		{"N7", "(folder) has a sum and is not there", `SELECT folder_id FROM folder_sums WHERE folder_id NOT IN (SELECT id FROM nodes WHERE type = 'folder')`},
		{"N7", "(folder) has a sum, and a folder in it has none", `SELECT s.folder_id FROM folder_sums s JOIN nodes n ON n.parent_id = s.folder_id
			WHERE n.type = 'folder' AND n.trashed_at = 0 AND n.id NOT IN (SELECT folder_id FROM folder_sums)`},
		{"N7", "(folder) has a sum that is not that of what is in it", `SELECT s.folder_id FROM folder_sums s
			LEFT JOIN nodes n ON n.parent_id = s.folder_id AND n.trashed_at = 0 LEFT JOIN versions v ON v.id = n.version_id
			LEFT JOIN folder_sums b ON b.folder_id = n.id GROUP BY s.folder_id
			HAVING s.files <> TOTAL(CASE n.type WHEN 'file' THEN 1 ELSE b.files END) OR s.folders <> TOTAL(CASE n.type WHEN 'folder' THEN 1 + b.folders END)
			OR s.size <> TOTAL(CASE n.type WHEN 'file' THEN v.size ELSE b.size END)`},
		{"P3", "(tombstone's node) is still there", `SELECT t.node_id FROM tombstones t JOIN nodes n
			ON n.id = t.node_id AND n.account_id = t.account_id`},
	} {
		if err := c.none(rule.invariant, rule.text, rule.query); err != nil {
			return err
		}
	}
	return nil
}

// references checks that each blob has as many references as versions and exports name it, at least
// one (B2), and the size that they name.
func (c *checker) references() error {
	for _, rule := range []struct{ invariant, text, query string }{
		{"B2", "(blob) has references that do not match its versions", `SELECT b.id FROM blobs b
			WHERE b.refs <> (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id)
			+ (SELECT COUNT(*) FROM export_pins x WHERE x.blob_id = b.id) OR b.refs < 1`},
		{"P1", "(version) names no blob, or one of another size", `SELECT v.id FROM versions v LEFT JOIN blobs b ON b.id = v.blob_id
			WHERE b.id IS NULL OR b.size <> v.size`},
		{"X4", "(export) holds content that is not there, or of another size", `SELECT x.export_id FROM export_pins x LEFT JOIN blobs b ON b.id = x.blob_id
			WHERE x.blob_id <> '' AND b.id IS NULL OR b.size <> x.size`},
		{"X1", "(export) does not count what it has", `SELECT e.id FROM exports e WHERE state IN ('pending', 'running', 'aborted', 'sealed') AND
			(collected <> (SELECT COUNT(*) FROM export_pins x WHERE x.export_id = e.id)
			OR failed <> (SELECT COUNT(*) FROM export_errors x WHERE x.export_id = e.id))`},
		{"X1", "(export) has an entry that has arrived and failed", `SELECT x.export_id FROM export_pins x JOIN export_errors y
			ON y.export_id = x.export_id AND y.n = x.n`},
		{"X5", "(export) has given everything back and holds something", `SELECT x.export_id FROM export_pins x LEFT JOIN exports e
			ON e.id = x.export_id WHERE e.id IS NULL OR e.released_at > 0`},
		{"K2", "(bundle) does not count what its records say", `SELECT b.id FROM bundles b WHERE state IN ('done', 'rejected') AND
			(declared <> accepted + rejected + duplicates + conflicts OR
			declared + surplus <> (SELECT COALESCE(SUM(counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id) OR
			accepted <> (SELECT COALESCE(SUM(counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = 'accepted'))`},
		{"K3", "(document) was accepted by no bundle, or by several", `SELECT d.id FROM documents d
			WHERE 1 <> (SELECT COUNT(*) FROM bundle_records r WHERE r.document_id = d.id AND r.outcome = 'accepted')`},
		{"B2", "(file) is released and in use", `SELECT file FROM released WHERE file IN (SELECT file FROM blobs)`},
		{"B2", "(blob) was found damaged", `SELECT id FROM blobs WHERE damaged_at > 0`},
	} {
		if err := c.none(rule.invariant, rule.text, rule.query); err != nil {
			return err
		}
	}
	return nil
}
