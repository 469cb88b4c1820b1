/* SPDX-License-Identifier: ISC */
/* sandbox/prompt.c - how a shell inside shows in its prompt that it is inside.
 * Each kind of shell is told where its own start-up files cannot undo it: the mark is put in front of
 * whatever prompt they made, once. */
#include "sandbox/prompt.h"

#include <string.h>

#include "common/scope.h"

const struct environ_word prompt_words[] = {
	{ true, "WEIR_PROMPT", "(weir) " },
	/* bash, before each prompt */
	{ true, "PROMPT_COMMAND", "[[ $PS1 == \"$WEIR_PROMPT\"* ]] || PS1=$WEIR_PROMPT$PS1" },
	/* sh, dash, ksh: read by each interactive one */
	{ true, "ENV", PROMPT_DIR "/env" },
	/* zsh: where it looks for its first file */
	{ true, "ZDOTDIR", PROMPT_DIR },
};
const size_t prompt_nwords = ARRAY_LEN(prompt_words);

const struct prompt_file prompt_files[] = {
	{ "env", "case ${PS1-} in\n"
		 "\"${WEIR_PROMPT-}\"*) ;;\n"
		 "*) PS1=$WEIR_PROMPT$PS1 ;;\n"
		 "esac\n" },
	{ ".zshenv",
	  "unset ZDOTDIR\n"
	  "[[ -r ~/.zshenv ]] && . ~/.zshenv\n"
	  "if [[ -o interactive ]]; then\n"
	  "\t_weir_prompt() { [[ $PROMPT == \"$WEIR_PROMPT\"* ]] || PROMPT=$WEIR_PROMPT$PROMPT }\n"
	  "\tprecmd_functions+=(_weir_prompt)\n"
	  "fi\n" },
	{ NULL, NULL },
};

static bool is(const char *shell, const char *name)
{
	const char *slash = strrchr(shell, '/');

	return str_eq(slash ? slash + 1 : shell, name);
}

const char *const *prompt_args(const char *shell, size_t nargs)
{
	static const char *const login[] = { "-l", NULL };
	static const char *const none[] = { NULL };
	static const char *const fish[] = {
		"-l", "-C",
		"functions -q _weir_prompt; or begin; functions -c fish_prompt _weir_prompt; "
		"function fish_prompt; echo -n $WEIR_PROMPT; _weir_prompt; end; end",
		NULL
	};

	if (is(shell, "fish"))
		return fish;
	/* csh(1): -l counts only where it stands alone */
	return nargs > 0 && (is(shell, "csh") || is(shell, "tcsh")) ? none : login;
}
