// The documentation comments of the packages' entry points, read from their sources with TypeScript's parser and binder.
// Owns: which entry points are public, and what needs a comment. It checks nothing itself: tsdoc.test.mjs and snippets.test.mjs do.
// Invariants: every entry point in the `exports` of a published package is either listed by `doors` or excluded there with a reason.

import { dirname, join, relative, resolve, sep } from "node:path";
import ts from "typescript-5.9";
import { root, workspacePackages } from "./setup.mjs";

/** Entry points that nothing imports names from, and why. */
const withoutNames = new Map([["@holdfast/cli/register", "loaded with `node --import` for its effect; it exports nothing"]]);

/** Entry points whose names are listed first, so that a name which several packages export is listed where most users import it. */
const first = ["holdfast", "holdfast/testing"];

/**
 * The public entry points: the name that users import, and the source file behind it.
 * @returns {{ door: string, file: string }[]}
 */
export function doors() {
  return workspacePackages()
    .filter(({ manifest }) => manifest.private !== true)
    .flatMap(({ dir, manifest }) =>
      Object.entries(manifest.exports ?? {}).flatMap(([subpath, target]) => {
        const source = target["@holdfast/source"];
        const door = `${manifest.name}${subpath.slice(1)}`;
        return source === undefined || withoutNames.has(door) ? [] : [{ door, file: join(dir, source) }];
      }),
    )
    .sort((a, b) => rank(a.door) - rank(b.door));
}
/** @param {string} door */
const rank = (door) => (first.includes(door) ? first.indexOf(door) : first.length);

/**
 * A declaration that an editor shows on hover: an exported name, or a member of one ("Run.result", "Limit.rate.per").
 * @typedef {{ name: string, file: string, line: number, isType: boolean, comment: string | undefined, commentLine: number }} Documented
 */

/**
 * Everything that the entry points export, with its comment. A declaration that several of them export is listed once.
 * @returns {Map<string, Documented[]>} by entry point
 */
export function documented(entries = doors()) {
  const program = programOf(entries.map(({ file }) => file));
  const checker = program.getTypeChecker();
  /** @type {Set<ts.Node>} */
  const seen = new Set();
  /** @type {Map<string, Documented[]>} */
  const found = new Map();
  for (const { door, file } of entries) {
    const source = program.getSourceFile(file);
    const module = source && checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${door}: ${file} is not a module`);
    const exported = checker
      .getExportsOfModule(module)
      .flatMap((symbol) =>
        withoutImplementation(original(symbol, checker).declarations ?? []).map((node) => ({ name: symbol.name, node })),
      );
    /** @type {Documented[]} */
    const list = [];
    for (const { name, node } of exported) collect(node, name, checker, seen, list);
    // Afterwards: a member that is exported with its own interface is listed there.
    for (const { name, node } of exported) {
      for (const base of basesOf(node, checker)) collectMembers(base, name, undefined, checker, seen, list);
    }
    found.set(door, list);
  }
  return found;
}
/** What a name that is imported from another file stands for. @param {ts.Symbol} symbol @param {ts.TypeChecker} checker */
const original = (symbol, checker) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
/**
 * The declarations that an interface or class extends, and those that these extend.
 * @param {ts.Declaration} node
 * @param {ts.TypeChecker} checker
 * @returns {ts.Declaration[]}
 */
function basesOf(node, checker, by = ["extends"]) {
  const bases = ts.isTypeAliasDeclaration(node)
    ? referencesIn(node.type)
    : ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node)
      ? (node.heritageClauses ?? [])
          .filter((clause) => by.includes(clause.token === ts.SyntaxKind.ExtendsKeyword ? "extends" : "implements"))
          .flatMap((clause) => clause.types.flatMap(referencesIn))
      : [];
  return bases
    .flatMap((base) => {
      const symbol = checker.getSymbolAtLocation(base);
      return symbol === undefined ? [] : (original(symbol, checker).declarations ?? []);
    })
    .flatMap((base) => [base, ...basesOf(base, checker, by)]);
}
/** The names of the types that a type has the members of: those of `Base` in Partial<Base>, both in A & B. @param {ts.Node} type @returns {ts.Node[]} */
function referencesIn(type) {
  if (ts.isIntersectionTypeNode(type)) return type.types.flatMap(referencesIn);
  if (!ts.isTypeReferenceNode(type) && !ts.isExpressionWithTypeArguments(type)) return [];
  const name = ts.isTypeReferenceNode(type) ? type.typeName : type.expression;
  const [argument] = type.typeArguments ?? [];
  const isMapped = argument !== undefined && /^(Partial|Omit|Pick|Required|Readonly)$/.test(name.getText());
  return isMapped ? referencesIn(argument) : [name];
}

/** A program of the repository's sources alone: types of dependencies and of the language are not needed to find comments. @param {string[]} files */
function programOf(files) {
  /** @type {ts.CompilerOptions} */
  const options = { noLib: true, types: [], allowImportingTsExtensions: true, noEmit: true, target: ts.ScriptTarget.ES2023 };
  const byName = new Map(doors().map(({ door, file }) => [door, file]));
  const host = ts.createCompilerHost(options, true);
  host.resolveModuleNameLiterals = (literals, from) =>
    literals.map(({ text }) => {
      const path = text.startsWith(".") && text.endsWith(".ts") ? resolve(dirname(from), text) : byName.get(text);
      return { resolvedModule: path === undefined ? undefined : { resolvedFileName: path, extension: ts.Extension.Ts } };
    });
  return ts.createProgram(files, options, host);
}

/** The declarations that callers see: of an overloaded function, not its implementation. @template {ts.Declaration} T @param {readonly T[]} declarations */
function withoutImplementation(declarations) {
  const isOverload = (/** @type {ts.Declaration} */ node) => ts.isFunctionLike(node) && !("body" in node && node.body !== undefined);
  return declarations.some(isOverload) ? declarations.filter(isOverload) : [...declarations];
}

/**
 * @param {ts.Declaration} node
 * @param {string} name
 * @param {ts.TypeChecker} checker
 * @param {Set<ts.Node>} seen
 * @param {Documented[]} list
 */
function collect(node, name, checker, seen, list) {
  if (seen.has(node)) return;
  seen.add(node);
  const comment = commentOf(node);
  if (comment?.text.includes("@internal") || (comment === undefined && inherits(node, checker))) return;
  const source = node.getSourceFile();
  const lineOf = (/** @type {number} */ at) => source.getLineAndCharacterOfPosition(at).line + 1;
  list.push({
    name,
    file: relative(root, source.fileName).split(sep).join("/"),
    line: lineOf(node.getStart()),
    isType: ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node),
    comment: comment?.text,
    commentLine: comment ? lineOf(comment.at) : 0,
  });
  // What a call takes and gives may be explained where the call is: `timeout`.
  collectMembers(node, name, isCallable(node) ? comment?.text : undefined, checker, seen, list);
}

/**
 * @param {ts.Declaration} node
 * @param {string} name
 * @param {string | undefined} explained where members may be explained, too
 * @param {ts.TypeChecker} checker
 * @param {Set<ts.Node>} seen
 * @param {Documented[]} list
 */
function collectMembers(node, name, explained, checker, seen, list) {
  const members = membersOf(node);
  const nameOf = (/** @type {ts.NamedDeclaration} */ member) => member.name?.getText() ?? "";
  for (const own of new Set(members.map(nameOf))) {
    if (explained?.includes(`\`${own}\``)) continue;
    const declarations = members.filter((member) => nameOf(member) === own);
    for (const member of withoutImplementation(declarations)) collect(member, `${name}.${own}`, checker, seen, list);
  }
}

/** The members that users see: also those of object types written inside this declaration. @param {ts.Declaration} node */
function membersOf(node) {
  /** @type {ts.NamedDeclaration[]} */
  const members = [];
  const visit = (/** @type {ts.Node} */ child) => {
    if (ts.isBlock(child) || ts.isTypeParameterDeclaration(child)) return;
    // Errors are made by Holdfast: what their constructors take is not for users. The three that users throw say it in their comment.
    if (ts.isConstructorDeclaration(child) || (ts.isClassElement(child) && isHidden(child))) return;
    // The argument of a context is a set of types, not an object, and that of Extract says which types.
    if (ts.isTypeReferenceNode(child) && /Context$|^(Extract|Exclude)$/.test(child.typeName.getText())) return;
    if (ts.isSatisfiesExpression(child)) return visit(child.expression);
    if (isMember(child)) members.push(child);
    else if (ts.isVariableDeclaration(node) && child === node.initializer && (node.type !== undefined || !isTable(child))) return;
    else ts.forEachChild(child, visit);
  };
  ts.forEachChild(node, visit);
  return members;
}

/** An object that a constant names, as `Receive` and `Loop` are. @param {ts.Node} node @returns {boolean} */
function isTable(node) {
  if (ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) return isTable(node.expression);
  return ts.isObjectLiteralExpression(node);
}

/** @param {ts.Node} node */
function isCallable(node) {
  if (ts.isPropertySignature(node) || ts.isPropertyDeclaration(node)) return node.type !== undefined && ts.isFunctionTypeNode(node.type);
  return ts.isFunctionLike(node);
}

/** @param {ts.Node} node @returns {node is ts.NamedDeclaration} */
function isMember(node) {
  // A member such as `kind: "signal"` says all there is to say.
  if (ts.isPropertySignature(node)) return !(node.type && ts.isLiteralTypeNode(node.type));
  if (ts.isMethodSignature(node)) return true;
  // In a table of data, the entries are what its comment announces.
  if (ts.isPropertyAssignment(node)) return ts.isFunctionLike(node.initializer);
  return (ts.isMethodDeclaration(node) || ts.isPropertyDeclaration(node) || ts.isAccessor(node)) && !isHidden(node);
}
/** @param {ts.ClassElement | ts.ObjectLiteralElement} node */
function isHidden(node) {
  const hidden = ts.getCombinedModifierFlags(node) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected);
  return hidden !== 0 || (node.name !== undefined && ts.isPrivateIdentifier(node.name));
}

/**
 * Editors show the comment of the interface or base class for a member of a class that has none. A base that is not of this repository, such
 * as Error, has comments of its own.
 * @param {ts.Declaration} node
 * @param {ts.TypeChecker} checker
 */
function inherits(node, checker) {
  if (!ts.isClassElement(node) || !ts.isClassDeclaration(node.parent)) return false;
  const { name, parent } = node;
  const bases = basesOf(parent, checker, ["extends", "implements"]);
  const members = bases.flatMap((base) => membersOf(base)).filter((member) => member.name?.getText() === name?.getText());
  if (members.length === 0) return (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Override) !== 0;
  return members.some((member) => commentOf(member) !== undefined);
}

/** The comment of a declaration, as it is written. @param {ts.Node} node */
function commentOf(node) {
  const owner = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  const last = ts.getJSDocCommentsAndTags(owner).filter(ts.isJSDoc).at(-1);
  return last && { text: last.getText(), at: last.getStart() };
}

/** The code in a comment's @example blocks, and the line before each. @param {Documented} documented */
export function examplesOf({ comment = "", commentLine }) {
  const text = comment.replaceAll(/^ *\* ?/gm, "");
  const begin = text.includes("@example") ? text.indexOf("@example") : text.length;
  const blocks = [...text.matchAll(/^```ts\n(.*?)^```$/gms)].filter(({ index }) => index > begin);
  return blocks.map((match) => {
    const line = commentLine + text.slice(0, match.index).split("\n").length - 1;
    return { line, code: match[1] ?? "" };
  });
}

/**
 * The examples of all entry points, as snippets. An example is a whole program; imports of what `holdfast` and `holdfast/testing` export may
 * be left out, as an editor adds them.
 * @returns {{ page: string, line: number, code: string, name: string }[]}
 */
export function examples(found = documented()) {
  const names = first.map((door) => ({ door, exported: (found.get(door) ?? []).filter(({ name }) => /^\w+$/.test(name)) }));
  return [...found.values()].flat().flatMap((one) =>
    examplesOf(one).map(({ line, code }) => {
      const imports = names.map(({ door, exported }) => importLine(door, exported, code)).join("");
      const name = `${one.file.replaceAll(/\W/g, "-")}-${line}`;
      return { page: one.file, line, code: `${imports}${code}`, name };
    }),
  );
}

/** Without a line break, so that line numbers stay those of the comment. @param {string} door @param {Documented[]} exported @param {string} code */
function importLine(door, exported, code) {
  const isOwn = (/** @type {string} */ name) => new RegExp(`\\b(const|let|function|import .*)\\b${name}\\b.*[=(}]`).test(code);
  const statements = code.replaceAll(/ \/\/ .*$/gm, "");
  const isUsed = (/** @type {string} */ name) => new RegExp(`(?<![\\w."'])${name}(?![\\w"':])`).test(statements);
  const used = exported.filter(({ name }) => isUsed(name) && !isOwn(name)).map(({ name, isType }) => (isType ? `type ${name}` : name));
  return used.length === 0 ? "" : `import { ${[...new Set(used)].join(", ")} } from "${door}"; `;
}
