-- Settings that administrators have changed while the server runs. Each instance reads all of them every few seconds; they are a handful.
-- Undo: drop the table; the settings are those that the server is started with.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS settings (
  name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  value      TEXT NOT NULL,
  changed_at BIGINT NOT NULL,
  changed_by VARCHAR(255),
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS settings;
