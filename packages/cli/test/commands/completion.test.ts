// Completion: what is offered, and the scripts in real shells.

import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Holdfast, workflow } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { holdfast, newFolder } from "./run.ts";

async function offered(...words: string[]): Promise<string[]> {
  const { code, out, err } = await holdfast(["__complete", ...words]);
  expect([code, err]).toEqual([0, ""]);
  return namesIn(out);
}
function namesIn(out: string): string[] {
  return out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split("\t")[0] ?? "");
}

test("commands, at each level", async () => {
  expect(await offered("")).toEqual(expect.arrayContaining(["runs", "schedules", "queues", "doctor"]));
  expect(await offered("ru")).toEqual(["runs"]);
  expect(await offered("runs", "re")).toEqual(["result", "resume"]);
  expect(await offered("--json", "--url", "runs", "queues", "p")).toEqual(["pause"]);
  expect(await offered("completion", "")).toEqual(["bash", "zsh", "fish"]);
  expect(await offered("runs", "show", "")).toEqual([]);
});

test("options of the command and global ones, and their choices", async () => {
  expect(await offered("runs", "list", "--fin")).toEqual(["--finished-since", "--finished-until"]);
  expect(await offered("runs", "list", "--name")).toEqual(["--namespace"]);
  expect(await offered("runs", "list", "-o", "js")).toEqual(["json", "jsonl"]);
  expect(await offered("runs", "start", "w", "--on-conflict", "re")).toEqual(["reject", "restart-if-closed", "replace"]);
  expect(await offered("token", "--role", "")).toEqual(["read", "operate", "admin"]);
  expect(await offered("runs", "list", "--status", "failed,b")).toEqual(["failed,blocked"]);
  expect(await offered("runs", "list", "--status=bl")).toEqual(["--status=blocked"]);
  // bash splits at "=".
  expect(await offered("runs", "list", "--status", "=", "bl")).toEqual(["blocked"]);
  expect(await offered("runs", "list", "--status", "=")).toContain("blocked");
  expect(await offered("runs", "list", "--attr", "tenant", "=", "42", "--status", "bl")).toEqual(["blocked"]);
});

test("names of workflows, of the store that the line names in any way", async () => {
  const cwd = newFolder();
  const engine = await Holdfast.open(`file:${join(cwd, "a b.db")}`);
  onTestFinished(() => engine.close());
  await engine.worker({ workflows: [workflow("order", async () => undefined), workflow("refund", async () => undefined)] });
  // A store that takes longer than the shell waits offers nothing: on a busy machine it is asked again.
  const offers = (given: readonly string[], names: readonly string[]) =>
    expect
      .poll(async () => namesIn((await holdfast(["__complete", "runs", "start", ...given], { cwd })).out), { timeout: 60_000 })
      .toEqual(names);
  for (const url of [
    ["--url", "file:a b.db"],
    ["--url=file:a b.db"],
    ["--url", "file", ":", "a b.db"],
    ["--url", "=", "file", ":", "a b.db"],
  ])
    await offers([...url, ""], ["order", "refund"]);
  await offers(["--url", "file:a b.db", "ref"], ["refund"]);
});

test("a store that can't be read offers nothing, and says nothing", async () => {
  expect(await offered("runs", "start", "--url", "ftp://x", "")).toEqual([]);
});

/** A `holdfast` that offers words from a list, and writes down what it was asked, for the scripts to call. */
function folderWithCommand(): string {
  const folder = newFolder();
  const path = join(folder, "holdfast");
  writeFileSync(
    path,
    `#!/bin/sh
[ "$1" = __complete ] || exit 1
shift
for w in "$@"; do printf '<%s>' "$w"; done >> asked
echo >> asked
for offer in runs replay a:b; do
  case "$offer" in "$w"*) printf '%s\tabout: it\n' "$offer" ;; esac
done
`,
  );
  chmodSync(path, 0o755);
  writeFileSync(join(folder, "notes.txt"), "");
  return folder;
}
const asked = (folder: string) => readFileSync(join(folder, "asked"), "utf8").trimEnd().split("\n");
async function scriptFor(shell: string): Promise<string> {
  const { code, out } = await holdfast(["completion", shell]);
  expect([code, out.includes("__complete")]).toEqual([0, true]);
  return out;
}
/** Undefined: this machine has no such shell. Nothing of the user's own settings is read. */
function inShell(shell: string, args: readonly string[], folder: string): string | undefined {
  const env = { ...process.env, PATH: `${folder}:${process.env["PATH"]}`, HOME: folder, XDG_CONFIG_HOME: folder, TERM: "dumb" };
  const { error, stdout, stderr } = spawnSync(shell, args, { cwd: folder, encoding: "utf8", env, timeout: 30_000 });
  if ((error as NodeJS.ErrnoException | undefined)?.code === "ENOENT") return undefined;
  expect([error, stderr]).toEqual([undefined, ""]);
  return stdout;
}

test("the script for bash completes with what holdfast offers", async () => {
  const folder = folderWithCommand();
  writeFileSync(join(folder, "script"), await scriptFor("bash"));
  const program = `source ./script; COMP_WORDS=(./holdfast runs '"a b"' "'c" r); COMP_CWORD=4; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"; complete -p holdfast`;
  const out = inShell("bash", ["--norc", "-c", program], folder);
  expect(out?.split("\n")).toEqual(["runs", "replay", "complete -o default -F _holdfast holdfast", ""]);
  expect(asked(folder)).toEqual(["<runs><a b><c><r>"]);
});

test("the script for fish completes with what holdfast offers, and with files where that is nothing", async () => {
  const folder = folderWithCommand();
  writeFileSync(join(folder, "script.fish"), await scriptFor("fish"));
  const lines = ["holdfast r", 'holdfast "a b" a', "holdfast ", "holdfast no"];
  const program = ["source ./script.fish", ...lines.map((line) => `complete -C '${line}'; echo -`)].join("\n");
  const out = inShell("fish", ["--no-config", "-c", program], folder);
  if (out === undefined) return; // The text was checked above.
  const it = "\tabout: it";
  const answers = out.split("-\n").map((answer) => answer.split("\n").slice(0, -1).toSorted());
  expect(answers).toEqual([[`replay${it}`, `runs${it}`], [`a:b${it}`], [`a:b${it}`, `replay${it}`, `runs${it}`], ["notes.txt"], []]);
  expect(asked(folder)).toEqual(["<r>", "<a b><a>", "<>", "<no>"]);
});

/** Types each line and a tab in an interactive zsh, and writes down what the line has become. */
const TYPING = `zmodload zsh/zpty
zpty z zsh -f -i
waitFor() { local chunk all; while zpty -r z chunk; do all+=$chunk; [[ $all == *$1* ]] && return; done }
zpty -w z "PROMPT=; fpath=($PWD \\$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word
report() { print -r -- \\"[\\$BUFFER]\\" >> typed; zle kill-whole-line }
zle -N report; bindkey '^T' report; print REA''DY"
waitFor READY
for line in "$@"; do zpty -n -w z "$line"$'\\t\\x14'; done
zpty -w z "print DO''NE"
waitFor DONE
`;

test("the script for zsh completes with what holdfast offers, and with files where that is nothing", async () => {
  const folder = folderWithCommand();
  writeFileSync(join(folder, "_holdfast"), await scriptFor("zsh"));
  writeFileSync(join(folder, "typing"), TYPING);
  const lines = ["holdfast ru", 'holdfast "a b" a', "./holdfast rep", "holdfast no"];
  if (inShell("zsh", ["-f", "typing", ...lines], folder) === undefined) return; // The text was checked above.
  const typed = readFileSync(join(folder, "typed"), "utf8").split("\n");
  expect(typed).toEqual(["[holdfast runs ]", '[holdfast "a b" a:b ]', "[./holdfast replay ]", "[holdfast notes.txt ]", ""]);
  expect(new Set(asked(folder))).toEqual(new Set(["<ru>", "<a b><a>", "<rep>", "<no>"]));
});
