-- Numbers of what is shared, for protocols whose ids of shares are integers: of a role at a node, and of a link. Given when somebody asks
-- for one, and never given twice (InnoDB keeps AUTO_INCREMENT over a restart). Read by node and subject, and by number. Housekeeping drops
-- those of roles and links that have ended.
-- Undo: drop the table; shares get other numbers then.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS share_numbers (
  number  BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  subject CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the principal who has the role, or the link
  UNIQUE KEY share_numbers_subject (node_id, subject)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS share_numbers;
