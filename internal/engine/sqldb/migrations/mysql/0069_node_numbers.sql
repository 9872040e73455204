-- Numbers of nodes, for protocols whose ids are integers: given when somebody asks for one, the same ever after, and never given twice
-- (InnoDB keeps AUTO_INCREMENT over a restart). A row goes with its node.
-- Undo: drop the table; nodes get other numbers then, and clients of such a protocol fetch everything again.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS node_numbers (
  number  BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  UNIQUE KEY node_numbers_node (node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS node_numbers;
