-- The attributes of runs as rows, by which lists find them (B1): triggers keep them as the column `attributes` of `runs` is, whatever
-- writes it. A plain run has none, and costs a comparison.

CREATE TABLE holdfast.attributes (
  run bigint NOT NULL,
  created_at bigint NOT NULL,
  number double precision,
  name text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  string text COLLATE "C"
);
CREATE INDEX attributes_by_run ON holdfast.attributes (run);
CREATE INDEX attributes_by_string ON holdfast.attributes (name, string, created_at, run) WHERE string IS NOT NULL;
CREATE INDEX attributes_by_number ON holdfast.attributes (name, type, number, created_at, run) WHERE number IS NOT NULL;

-- A text in the order of code points. What no column can hold is written as U+001A and four digits (see columns.ts), in another order: here
-- NUL is two U+0001, and half of a surrogate pair is U+D7FF and its digits. These two are followed by U+0002 and by a minus.
CREATE FUNCTION holdfast.ordered_text_1(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN strpos(p_text, chr(1)) + strpos(p_text, chr(26)) + strpos(p_text, chr(55295)) = 0 THEN p_text
    ELSE replace(replace(replace(replace(replace(p_text, chr(1), chr(1) || chr(2)), chr(55295), chr(55295) || '-'),
      chr(26) || '0000', chr(1) || chr(1)), chr(26) || 'd', chr(55295) || 'd'), chr(26) || '001a', chr(26)) END
$$;

-- Texts are cut, since an index takes no more than 2,704 bytes: what a list finds by such a text is compared with the run.
CREATE FUNCTION holdfast.index_attributes_1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN DELETE FROM holdfast.attributes WHERE run = OLD.key; END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO holdfast.attributes (run, created_at, name, type, string, number)
      SELECT NEW.key, NEW.created_at, left(holdfast.ordered_text_1(e.key), 128), jsonb_typeof(e.value),
        CASE WHEN jsonb_typeof(e.value) = 'string' THEN left(holdfast.ordered_text_1(e.value #>> '{}'), 512) END,
        CASE jsonb_typeof(e.value) WHEN 'number' THEN (e.value #>> '{}')::double precision WHEN 'boolean' THEN (e.value #>> '{}')::boolean::integer END
      FROM jsonb_each(CASE WHEN jsonb_typeof(NEW.attributes) = 'object' THEN NEW.attributes ELSE '{}' END) e
      WHERE jsonb_typeof(e.value) IN ('string', 'number', 'boolean');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER attributes_of_new_runs AFTER INSERT ON holdfast.runs FOR EACH ROW WHEN (NEW.attributes <> '{}') EXECUTE FUNCTION holdfast.index_attributes_1();
CREATE TRIGGER attributes_that_change AFTER UPDATE OF attributes ON holdfast.runs FOR EACH ROW WHEN (OLD.attributes <> NEW.attributes) EXECUTE FUNCTION holdfast.index_attributes_1();
CREATE TRIGGER attributes_of_deleted_runs AFTER DELETE ON holdfast.runs FOR EACH ROW WHEN (OLD.attributes <> '{}') EXECUTE FUNCTION holdfast.index_attributes_1();
