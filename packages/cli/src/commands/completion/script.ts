// `holdfast completion`: scripts for shells.
// Owns: the scripts.
// Invariants: they ask `holdfast __complete` for candidates, so that they never grow old; errors of it are not shown.

import { choiceOption } from "../arguments.ts";
import { EXIT } from "../failures.ts";
import type { Session } from "../session.ts";

const BASH = `# holdfast completion for bash: add it to ~/.bashrc
_holdfast() {
  local line given=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  given=("\${given[@]#[\\"\\']}") # words come with their quotes
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("\${COMP_WORDS[0]}" __complete "\${given[@]%[\\"\\']}" 2>/dev/null)
}
complete -o default -F _holdfast holdfast`;

const ZSH = `#compdef holdfast
# holdfast completion for zsh: put it into a folder of $fpath as _holdfast
_holdfast() {
  local -a candidates
  local line
  while IFS= read -r line; do
    candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <("\${words[1]}" __complete "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  _describe holdfast candidates || _files
}
if [ "\${funcstack[1]}" = "_holdfast" ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`;

const FISH = `# holdfast completion for fish: put it into ~/.config/fish/completions/holdfast.fish
function __holdfast_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete $words[2..-1] 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c holdfast -f -a '(__holdfast_complete)'`;

const SCRIPTS = { bash: BASH, zsh: ZSH, fish: FISH } as const;

export async function printScript(session: Session, [shell]: readonly [string]): Promise<number> {
  const script = SCRIPTS[choiceOption("The shell", shell, ["bash", "zsh", "fish"])];
  session.show({ json: { shell, script }, human: () => [script] });
  return EXIT.ok;
}
