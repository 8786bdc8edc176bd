-- The pages of the log's map, in the order of their names: neighbours change together. A page's body may also hold values that wait for
-- the pages below it, so that the newest entry of the kind log.mapped commits to the pages as they will be.
CREATE TABLE map_page_in_order (
    id    BLOB NOT NULL PRIMARY KEY,
    body  BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO map_page_in_order (id, body) SELECT id, body FROM map_page ORDER BY id;
DROP TABLE map_page;
ALTER TABLE map_page_in_order RENAME TO map_page;
