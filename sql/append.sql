-- Several foreign tables below one Append: which of them are read
-- concurrently.  No rows are read in this file; test/t/read/append.pl reads.
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
\set ECHO all
CREATE SERVER append_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com');
CREATE TABLE sales (id uuid, label text, state integer, odds integer) PARTITION BY LIST (state);
CREATE FOREIGN TABLE sales_open (id uuid OPTIONS ("column" 'opportunityid'), label text OPTIONS ("column" 'name'), state integer OPTIONS ("column" 'statecode', type 'state'), odds integer OPTIONS ("column" 'closeprobability'))
  SERVER append_crm OPTIONS (entity_set 'opportunities', primary_id 'opportunityid');
CREATE FOREIGN TABLE sales_won (id uuid OPTIONS ("column" 'opportunityid'), label text OPTIONS ("column" 'name'), state integer OPTIONS ("column" 'statecode', type 'state'), odds integer OPTIONS ("column" 'closeprobability'))
  SERVER append_crm OPTIONS (entity_set 'opportunities', primary_id 'opportunityid');
ALTER TABLE sales ATTACH PARTITION sales_open FOR VALUES IN (0);
ALTER TABLE sales ATTACH PARTITION sales_won FOR VALUES IN (1);
CREATE TABLE parent (label text);
CREATE FOREIGN TABLE child (label text OPTIONS ("column" 'fullname')) INHERITS (parent)
  SERVER append_crm OPTIONS (entity_set 'contacts', primary_id 'contactid');

-- partitions, children, UNION ALL
EXPLAIN (VERBOSE, COSTS OFF) SELECT label FROM sales;
EXPLAIN (COSTS OFF) SELECT label FROM sales WHERE state = 1;
EXPLAIN (COSTS OFF) SELECT label FROM parent;
EXPLAIN (VERBOSE, COSTS OFF) SELECT label FROM sales_open WHERE state = 0 UNION ALL SELECT label FROM child WHERE length(label) > 3;
EXPLAIN (COSTS OFF) SELECT DISTINCT label FROM (SELECT label FROM sales UNION ALL SELECT label FROM parent) s LIMIT 3;
EXPLAIN (COSTS OFF) (SELECT label FROM sales_open LIMIT 3) UNION ALL (SELECT label FROM child LIMIT 3);

-- sequentially: in the order of a key, counts, and if requested
EXPLAIN (COSTS OFF) SELECT odds FROM sales ORDER BY odds LIMIT 3;
SELECT pg_temp.explain('VERBOSE', $$SELECT max(odds) FROM sales$$);
EXPLAIN (COSTS OFF) SELECT DISTINCT odds FROM sales LIMIT 3;
EXPLAIN (COSTS OFF) SELECT count(*) FROM sales_open UNION ALL SELECT count(*) FROM child;
SET enable_async_append = off;
EXPLAIN (COSTS OFF) SELECT label FROM sales;
RESET enable_async_append;

-- partition by partition: clauses of the join apply to partitions as well
CREATE TABLE wanted (id uuid, label text, state integer) PARTITION BY LIST (state);
CREATE TABLE wanted_open PARTITION OF wanted FOR VALUES IN (0);
CREATE TABLE wanted_won PARTITION OF wanted FOR VALUES IN (1);
SET enable_partitionwise_join = on;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT pg_temp.explain('VERBOSE', $$SELECT w.label FROM wanted w JOIN sales s ON s.state = w.state AND s.id = w.id AND s.label = w.label AND length(s.label) > length(w.label) WHERE s.odds > 50$$);
RESET enable_partitionwise_join;
SELECT pg_temp.explain('VERBOSE', $$SELECT w.label FROM wanted w JOIN sales s ON s.id = w.id AND s.label = w.label WHERE s.odds > 50$$);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

DROP TABLE parent, sales, wanted CASCADE;
DROP SERVER append_crm;
