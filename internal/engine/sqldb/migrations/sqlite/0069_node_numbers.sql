-- Numbers of nodes, for protocols whose ids are integers: given when somebody asks for one, the same ever after, and never given twice
-- (hence AUTOINCREMENT). A row goes with its node.
-- Undo: drop the table; nodes get other numbers then, and clients of such a protocol fetch everything again.
-- +goose Up
CREATE TABLE node_numbers (
  number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  node_id TEXT    NOT NULL UNIQUE
);

-- +goose Down
DROP TABLE node_numbers;
