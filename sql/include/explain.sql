-- Shows a plan without what differs between versions of PostgreSQL: 18 has
-- fractional row counts and tells how tuples are stored, 19 tells what an empty
-- result replaces and gives names to subplans, and up to 16 the output of an
-- InitPlan is a number and what is compared with the output of a SubPlan is left
-- out.  Which side of a join condition comes first varies, and so does the memory
-- that a node takes.
CREATE FUNCTION pg_temp.explain(options text, statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  sides text[];
BEGIN
  FOR line IN EXECUTE format('EXPLAIN (%s, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) %s', options, statement) LOOP
    CONTINUE WHEN line ~ '^\s*(Storage|Replaces): ';
    line := regexp_replace(line, '(rows=\d+)\.00', '\1');
    line := regexp_replace(line, '\m(InitPlan|SubPlan) [a-z]+_(\d)', '\1 \2', 'g');
    line := regexp_replace(line, '(InitPlan \d) \(returns \$\d+\)', '\1');
    line := regexp_replace(line, 'Memory Usage: \d+kB', 'Memory Usage: NkB');
    line := replace(line, '$0', '(InitPlan 1).col1');
    line := regexp_replace(line, '\(ANY \(.* = \((hashed SubPlan \d)\)\.col1\)\)', '(\1)');
    sides := regexp_match(line, '^(\s*Join Filter: )\((\S+) = (\S+)\)$');
    IF sides[2] COLLATE "C" > sides[3] THEN
      line := format('%s(%s = %s)', sides[1], sides[3], sides[2]);
    END IF;
    RETURN NEXT line;
  END LOOP;
END $$;
-- Since 16, the rows that a DISTINCT aggregate gets may be read in its order.
SELECT count(set_config(name, 'off', false)) AS presorted FROM pg_settings WHERE name = 'enable_presorted_aggregate' \gset
