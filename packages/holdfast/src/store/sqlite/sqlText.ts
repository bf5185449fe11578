// What the text of a user's SQL says, before a library sees it.
// Owns: the tokens that matter: words, parameters, ends of statements; texts, quoted names and comments are passed over. Which PRAGMAs
// only read.
// Invariants: nothing is parsed that SQLite parses better; SQLite refuses what is not SQL.

const TOKEN =
  /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|[:@$][\p{L}\p{N}_]+|\?\d*|[\p{L}_][\p{L}\p{N}_$]*|\p{N}[\p{L}\p{N}_.]*|;/gu;
const PASSED_OVER = /^(?:--|\/\*|['"`[]|\p{N})/u;

interface Token {
  readonly text: string;
  readonly at: number;
}

function* tokensOf(sql: string): Generator<Token> {
  for (const match of sql.matchAll(TOKEN)) if (!PASSED_OVER.test(match[0])) yield { text: match[0], at: match.index };
}

export interface SqlStatement {
  readonly sql: string;
  /** Its first word, in lower case, or that of what EXPLAIN explains. */
  readonly verb: string;
}

const EXPLAIN: ReadonlySet<string> = new Set(["explain", "query", "plan"]);

/** The statements of a text, one by one. A trigger is one, with those of its body. */
export function statementsOf(sql: string): SqlStatement[] {
  const statements: SqlStatement[] = [];
  let start = 0;
  let words: string[] = [];
  const finish = (end: number): void => {
    const verb = words.find((word) => !EXPLAIN.has(word)) ?? words[0];
    if (verb !== undefined) statements.push({ sql: sql.slice(start, end), verb });
    start = end;
    words = [];
  };
  for (const { text, at } of tokensOf(sql)) {
    if (text !== ";") words.push(text.toLowerCase());
    else if (!isInsideTrigger(words)) finish(at + 1);
  }
  finish(sql.length);
  return statements;
}

/** Up to the END of its body; each CASE has one as well. */
function isInsideTrigger(words: readonly string[]): boolean {
  if (words[0] !== "create" || !words.slice(1, 3).includes("trigger")) return false;
  const count = (word: string): number => words.filter((one) => one === word).length;
  return count("end") <= count("case");
}

const COMMENT = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;
const ABOUT_TABLES = "table_info|table_xinfo|table_list|index_list|index_info|index_xinfo|foreign_key_list|foreign_key_check";
const ABOUT_THE_FILE = "user_version|application_id|foreign_keys|database_list";
const READING_PRAGMA = new RegExp(
  `^\\s*pragma\\s+(?:\\w+\\.)?(?:(?:${ABOUT_TABLES})\\s*(?:\\([^()]*\\))?|${ABOUT_THE_FILE})\\s*;?\\s*$`,
  "i",
);

/** Of those that are known to change nothing, and in plain words: any other may be a setting, which stays on the connection. */
export function isReadingPragma(sql: string): boolean {
  return READING_PRAGMA.test(sql.replace(COMMENT, " "));
}

/** Names of parameters (`:id`, `@id`, `$id`) in the order in which SQLite numbers them; undefined if some have none. */
export function parameterNames(sql: string): string[] | undefined {
  const names = new Set<string>();
  for (const { text } of tokensOf(sql)) {
    if (text.startsWith("?")) return undefined;
    if (/^[:@$]/.test(text)) names.add(text);
  }
  return [...names];
}

/** How many values SQLite takes for its parameters: `?` has the number after the highest, `?3` its own, a name one wherever it stands. */
export function parameterCount(sql: string): number {
  const names = new Set<string>();
  let count = 0;
  for (const { text } of tokensOf(sql)) {
    if (/^\?\d/.test(text)) count = Math.max(count, Number(text.slice(1)));
    else if (text === "?") count++;
    else if (/^[:@$]/.test(text) && !names.has(text)) {
      names.add(text);
      count++;
    }
  }
  return count;
}
