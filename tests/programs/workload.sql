-- A workload for SQLite: storage, indices, triggers, windows, recursion, JSON,
-- full text, R-trees, errors. Every SELECT is deterministic.
PRAGMA page_size = 4096;
PRAGMA journal_mode = DELETE;
CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, people INTEGER CHECK (people >= 0));
CREATE TABLE trip (id INTEGER PRIMARY KEY, source INTEGER REFERENCES city, target INTEGER REFERENCES city, km REAL);
CREATE TABLE log (line TEXT);
CREATE TRIGGER new_trip AFTER INSERT ON trip WHEN new.km > 9990
BEGIN INSERT INTO log VALUES (printf('%d: %s to %s', new.id, new.source, new.target)); END;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO city SELECT i, printf('city-%03d', i), (i * 7919) % 100000 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO trip SELECT i, (i * 31) % 500 + 1, (i * 17) % 500 + 1, ((i * 7907) % 10000) + 0.5 FROM n;
COMMIT;
CREATE INDEX trip_source ON trip (source, km);
CREATE INDEX trip_far ON trip (km) WHERE km > 9000;
ANALYZE;
SELECT count(*), sum(people), avg(people), max(name) FROM city;
SELECT s.name, count(*), round(sum(km), 3) FROM trip JOIN city s ON s.id = source GROUP BY source ORDER BY 3 DESC, 1 LIMIT 5;
SELECT count(*) FROM trip WHERE km BETWEEN 9000 AND 9100 AND source < 100;
SELECT count(*), min(line), max(line) FROM log;
SELECT id, km, rank() OVER (ORDER BY km DESC, id), round(avg(km) OVER (ORDER BY id ROWS 2 PRECEDING), 4) FROM trip WHERE id <= 6 ORDER BY id;
SELECT group_concat(name, ',') FROM (SELECT name FROM city ORDER BY people DESC, name LIMIT 4);
BEGIN;
UPDATE trip SET km = km * 2 WHERE source % 2 = 0;
SAVEPOINT inner_one;
DELETE FROM trip WHERE id % 3 = 0;
SELECT count(*), round(total(km)) FROM trip;
ROLLBACK TO inner_one;
SELECT count(*), round(total(km)) FROM trip;
COMMIT;
SELECT json_extract('{"a":[1,2,{"b":"c"}]}', '$.a[2].b'), json_array(1, 'two', NULL, 3.5);
SELECT key, value FROM json_each('{"x":10,"y":[1,2]}');
CREATE VIRTUAL TABLE note USING fts5 (body, tokenize = 'porter');
INSERT INTO note VALUES ('The quick brown fox jumps'), ('over the lazy dogs'), ('Foxes and dogs are running'), ('nothing here');
SELECT rowid, highlight(note, 0, '[', ']') FROM note WHERE note MATCH 'fox OR dog' ORDER BY rowid;
INSERT INTO note (note) VALUES ('integrity-check');
CREATE VIRTUAL TABLE box USING rtree (id, left, right, low, high);
INSERT INTO box SELECT id, id % 50, id % 50 + 2, id / 50, id / 50 + 2 FROM city;
SELECT count(*), sum(id) FROM box WHERE left >= 10 AND right <= 20 AND low >= 2 AND high <= 8;
SELECT round(sin(1), 12), round(exp(2), 12), floor(-1.5), pow(2, 10);
SELECT date('2024-02-28', '+2 days'), strftime('%J', '2000-01-01'), time(0, 'unixepoch');
SELECT fnv1a('hello'), fnv1a(NULL), hex(fnv1a(x'00ff') % 256);
SELECT upper('straße'), lower('ÄB'), substr('größe', 3, 2), replace('aXbX', 'X', '--'), x'0102ff', quote(x'ab'), typeof(1.0);
SELECT * FROM no_such_table;
INSERT INTO city VALUES (1, 'again', 5);
INSERT INTO city VALUES (1000, 'negative', -5);
WITH RECURSIVE
  axis(x) AS (VALUES (-2.0) UNION ALL SELECT x + 0.1 FROM axis WHERE x < 1.0),
  ordinate(y) AS (VALUES (-1.0) UNION ALL SELECT y + 0.2 FROM ordinate WHERE y < 1.0),
  m(steps, cx, cy, x, y) AS (
    SELECT 0, x, y, 0.0, 0.0 FROM axis, ordinate
    UNION ALL SELECT steps + 1, cx, cy, x * x - y * y + cx, 2.0 * x * y + cy FROM m WHERE x * x + y * y < 4.0 AND steps < 24)
SELECT sum(most), max(most), count(*) FROM (SELECT max(steps) AS most FROM m GROUP BY cx, cy);
DELETE FROM trip WHERE id > 10000;
VACUUM;
PRAGMA integrity_check;
SELECT name, count(*) FROM dbstat GROUP BY name HAVING name IN ('city', 'trip', 'trip_source') ORDER BY name;
