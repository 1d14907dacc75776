"""`frazil completion`: what makes a shell complete commands and options."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


# What typer answers to is `_FRAZIL_COMPLETE`, set by these.
SCRIPTS = {
    Shell.BASH: """\
_frazil_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
                   _FRAZIL_COMPLETE=complete_bash $1 ) )
    return 0
}
complete -o default -F _frazil_completion frazil""",
    Shell.ZSH: """\
#compdef frazil
_frazil_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _FRAZIL_COMPLETE=complete_zsh frazil)
}
compdef _frazil_completion frazil""",
    Shell.FISH: """\
complete --command frazil --no-files --arguments \
"(env _FRAZIL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
_TYPER_COMPLETE_ARGS=(commandline -cp) frazil)" --condition \
"env _FRAZIL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args \
_TYPER_COMPLETE_ARGS=(commandline -cp) frazil\"""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell.")],
) -> None:
    """Print what makes a shell complete commands and options; put it into its start file."""
    print(SCRIPTS[shell])
