-- Errors as stored text. SQL knows kinds and details; the texts are in TypeScript (sql/errorTexts.ts), which installs
-- error_text_1 with the migration: for each kind a text with %RUN% and %DETAIL% in it.

-- An error, encoded: what it is about goes into its JSON.
CREATE FUNCTION holdfast.error_1(p_kind text, p_run text, p_detail text DEFAULT '') RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(replace(holdfast.error_text_1(p_kind), '%RUN%', substr(to_json(p_run)::text, 2, length(to_json(p_run)::text) - 2)),
    '%DETAIL%', substr(to_json(p_detail)::text, 2, length(to_json(p_detail)::text) - 2))
$$;

-- A reason, as plain text.
CREATE FUNCTION holdfast.reason_1(p_kind text, p_run text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(holdfast.error_text_1(p_kind), '%RUN%', p_run)
$$;

-- With the reason of a cancel, if it has one. Taken from its data as text: it may have escapes that the server would not read.
CREATE FUNCTION holdfast.canceled_error_1(p_message jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT replace(holdfast.error_text_1('canceled'), '%DETAIL%', substring(p_message ->> 'd' from '^[{]"reason" ?: ?"(.*)"[}]$'))
$$;
