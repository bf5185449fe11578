// JSON Schema as fields of a form.
// Owns: which schemas have fields, and reading and writing a value field by field. Pure.
// Invariants: a schema that has no fields here (unions, tuples, maps) is edited as JSON; no value that a schema allows is out of reach.

export type JsonSchema = Readonly<Record<string, unknown>>;
export type Path = readonly string[];

interface FieldBase {
  readonly path: Path;
  readonly label: string;
  readonly description: string | undefined;
  readonly isRequired: boolean;
}
export type Field = FieldBase &
  (
    | { readonly kind: "text" | "number" | "boolean" | "json" }
    | { readonly kind: "choice"; readonly choices: readonly (string | number | boolean | null)[] }
    | { readonly kind: "group"; readonly fields: readonly Field[] }
  );

/** Deeper objects are edited as JSON. */
const DEEPEST = 4;

/** Undefined: the value is edited as JSON. */
export function fieldsOf(schema: JsonSchema | null | undefined): readonly Field[] | undefined {
  if (schema === null || schema === undefined) return undefined;
  const root = resolve(schema, schema);
  const properties = propertiesOf(root);
  if (properties === undefined || Object.keys(properties).length === 0) return undefined;
  return objectFields(root, schema, [], 0);
}

function objectFields(schema: JsonSchema, root: JsonSchema, path: Path, depth: number): Field[] {
  const required = new Set(Array.isArray(schema["required"]) ? schema["required"] : []);
  return Object.entries(propertiesOf(schema) ?? {}).map(([name, given]) => {
    const property = resolve(isSchema(given) ? given : {}, root);
    return fieldOf(property, root, [...path, name], required.has(name), depth);
  });
}

function fieldOf(schema: JsonSchema, root: JsonSchema, path: Path, isRequired: boolean, depth: number): Field {
  const title = schema["title"];
  const description = schema["description"];
  const base: FieldBase = {
    path,
    label: typeof title === "string" && title !== "" ? title : (path.at(-1) ?? ""),
    description: typeof description === "string" ? description : undefined,
    isRequired,
  };
  const choices = choicesOf(schema, root);
  if (choices !== undefined) return { ...base, kind: "choice", choices };
  switch (schema["type"]) {
    case "string":
      return { ...base, kind: "text" };
    case "number":
    case "integer":
      return { ...base, kind: "number" };
    case "boolean":
      return { ...base, kind: "boolean" };
    case "object":
      if (depth < DEEPEST && propertiesOf(schema) !== undefined) {
        return { ...base, kind: "group", fields: objectFields(schema, root, path, depth + 1) };
      }
      return { ...base, kind: "json" };
    default:
      return { ...base, kind: "json" };
  }
}

function choicesOf(schema: JsonSchema, root: JsonSchema): (string | number | boolean | null)[] | undefined {
  if ("const" in schema && isScalar(schema["const"])) return [schema["const"]];
  const listed = schema["enum"];
  if (Array.isArray(listed) && listed.every(isScalar)) return listed;
  const options = schema["anyOf"] ?? schema["oneOf"];
  if (!Array.isArray(options) || options.length === 0) return undefined;
  const each = options.map((option) => (isSchema(option) ? choicesOf(resolve(option, root), root) : undefined));
  return each.every((one) => one !== undefined) ? each.flat() : undefined;
}

/** Follows `$ref` into the root, and a union with null to its other side. */
function resolve(schema: JsonSchema, root: JsonSchema, steps = 0): JsonSchema {
  const reference = schema["$ref"];
  if (typeof reference === "string" && reference.startsWith("#") && steps < 20) {
    const target = reference
      .slice(1)
      .split("/")
      .filter((part) => part !== "")
      .reduce<unknown>((at, part) => {
        const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
        return isSchema(at) && Object.hasOwn(at, name) ? at[name] : undefined;
      }, root);
    if (isSchema(target)) return resolve(target, root, steps + 1);
  }
  const options = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(options) && options.length === 2) {
    const rest = options.filter((option) => !(isSchema(option) && option["type"] === "null"));
    const only: unknown = rest[0];
    if (rest.length === 1 && isSchema(only) && steps < 20) return { ...resolve(only, root, steps + 1), ...titles(schema) };
  }
  return schema;
}
function titles({ title, description }: JsonSchema): JsonSchema {
  return { ...(title !== undefined && { title }), ...(description !== undefined && { description }) };
}

function propertiesOf(schema: JsonSchema): JsonSchema | undefined {
  const properties = schema["properties"];
  return isSchema(properties) ? properties : undefined;
}
function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function isScalar(value: unknown): value is string | number | boolean | null {
  return value === null || ["string", "number", "boolean"].includes(typeof value);
}

/** The value that a form begins with: what the schema has defaults for, and false for boxes that must be answered. */
export function initialValue(fields: readonly Field[], schema: JsonSchema): unknown {
  let value: unknown = {};
  const visit = (field: Field): void => {
    if (field.kind === "group") {
      if (field.isRequired) value = setAt(value, field.path, {});
      for (const inner of field.fields) visit(inner);
      return;
    }
    const given = defaultAt(schema, field.path);
    if (given !== undefined) value = setAt(value, field.path, given);
    else if (field.kind === "boolean" && field.isRequired && field.path.length === 1) value = setAt(value, field.path, false);
    else if (field.kind === "choice" && field.isRequired && field.choices.length === 1) value = setAt(value, field.path, field.choices[0]);
  };
  for (const field of fields) visit(field);
  return value;
}
function defaultAt(root: JsonSchema, path: Path): unknown {
  let at = resolve(root, root);
  for (const name of path) {
    const property = propertiesOf(at)?.[name];
    if (!isSchema(property)) return undefined;
    at = resolve(property, root);
  }
  return at["default"];
}

export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((at, name) => (isSchema(at) && Object.hasOwn(at, name) ? at[name] : undefined), value);
}
/** A copy with the value at the path; undefined removes it. */
export function setAt(value: unknown, path: Path, part: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return part;
  const object = isSchema(value) ? value : {};
  const inner = rest.length === 0 ? part : setAt(Object.hasOwn(object, name) ? object[name] : undefined, rest, part);
  if (inner !== undefined) return { ...object, [name]: inner };
  const { [name]: _removed, ...others } = object;
  return others;
}

/** JSON text as a value. An empty text is not a value. */
export function parseInput(
  text: string,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly problem: string } {
  if (text.trim() === "") return { ok: true, value: undefined };
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch (error) {
    return { ok: false, problem: `This is not JSON: ${(error as Error).message}` };
  }
}
