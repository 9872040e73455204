-- Numbers of what is shared, for protocols whose ids of shares are integers: of a role at a node, and of a link. Given when somebody asks
-- for one, and never given twice (hence AUTOINCREMENT). Read by node and subject, and by number. Housekeeping drops those of roles and
-- links that have ended.
-- Undo: drop the table; shares get other numbers then.
-- +goose Up
CREATE TABLE share_numbers (
  number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  node_id TEXT    NOT NULL,
  subject TEXT    NOT NULL, -- the principal who has the role, or the link
  UNIQUE (node_id, subject)
);

-- +goose Down
DROP TABLE share_numbers;
