/* SPDX-License-Identifier: ISC */
/* sandbox/dotfiles.c - the table of harmless dotfiles, and what makes one of them not harmless.
 * Read by the command line, which copies them. Believes nothing: a file that people keep settings in
 * is where they put a token some day, so that each is looked through before it is copied. */
#include "sandbox/dotfiles.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/scope.h"

/* Copied at each start, not bound: what the command writes stays in the private home. */
const struct dotfile_row dotfiles[] = {
	{ ".gitconfig", "name, address and taste in git" },
	{ ".config/git/config", "the same" },
	{ ".config/git/ignore", "what git leaves out" },
	{ ".config/git/attributes", "how git compares" },
	{ ".inputrc", "keys of every prompt" },
	{ ".vimrc", "an editor" },
	{ ".config/nvim/init.*", "an editor" },
	{ ".tmux.conf", "terminals" },
	{ ".config/matplotlib/matplotlibrc", "the look of plots" },
	{ ".Rprofile", "R's options" },
	{ ".jupyter/*.py", "Jupyter's options" },
	{ ".ipython/profile_default/*.py", "IPython's options" },
	{ NULL, NULL },
};

/* For weir shell too. */
const struct dotfile_row dotfiles_shell[] = {
	{ ".profile", "login shells" },
	{ ".bash_profile", "bash" },
	{ ".bash_login", "bash" },
	{ ".bashrc", "bash" },
	{ ".bash_aliases", "bash" },
	{ ".zshenv", "zsh" },
	{ ".zprofile", "zsh" },
	{ ".zshrc", "zsh" },
	{ ".zlogin", "zsh" },
	{ ".kshrc", "ksh" },
	{ ".config/fish/config.fish", "fish" },
	{ ".config/fish/conf.d/*.fish", "fish" },
	{ ".config/fish/functions/*.fish", "fish" },
	{ NULL, NULL },
};

/* A word that ends in one of these and is followed by "=" or ":" has a secret behind it. */
static const struct {
	const char *part;
	bool goes_on; /* letters may follow: passwd, tokens */
	bool exact;   /* case counts, and no letter stands in front */
} names[] = {
	{ "token", true, false },  { "secret", true, false },  { "passw", true, false },
	{ "_key", false, false },  { "PAT", false, true },     { "authorization", false, false },
	{ "apikey", true, false }, { "api_key", true, false },
};

/* Beginnings of keys that services hand out. */
static const char *const starts[] = { "ghp_",  "gho_",	"ghs_",	 "github_pat_", "glpat-",
				      "xoxb-", "xoxp-", "xoxa-", "AKIA",	"ASIA",
				      "npm_",  "pypi-", "hf_",	 "sk-",		"-----BEGIN" };
#define START_TAIL 8 /* bytes of a key behind its beginning, at least */

static bool part_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Does "=" or ":" follow, perhaps behind the end of a quoted word? */
static bool value_follows(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t' || *s == '"' || *s == '\'' || *s == ']'))
		s++;
	return s < end && (*s == '=' || *s == ':');
}

static bool name_here(const char *line, const char *s, const char *end)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i].part);
		const char *after = s + n;

		if ((size_t)(end - s) < n)
			continue;
		if (names[i].exact ? strncmp(s, names[i].part, n) != 0 ||
					     (s > line && isalnum((unsigned char)s[-1]))
				   : strncasecmp(s, names[i].part, n) != 0)
			continue;
		while (names[i].goes_on && after < end && part_of_word(*after))
			after++;
		if (value_follows(after, end))
			return true;
	}
	return false;
}

static bool key_here(const char *line, const char *s, const char *end)
{
	if (s > line && part_of_word(s[-1]))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		size_t n = strlen(starts[i]), tail = 0;

		if ((size_t)(end - s) < n || strncmp(s, starts[i], n) != 0)
			continue;
		if (starts[i][0] == '-')
			return true;
		while (s + n + tail < end && part_of_word(s[n + tail]))
			tail++;
		if (tail >= START_TAIL)
			return true;
	}
	return false;
}

/* "://user:password@" */
static bool password_here(const char *s, const char *end)
{
	const char *colon = NULL;

	if (end - s < 3 || strncmp(s, "://", 3) != 0)
		return false;
	for (s += 3; s < end && *s != '/' && *s != ' ' && *s != '\t' && *s != '"'; s++) {
		if (*s == '@')
			return colon && s > colon + 1;
		if (*s == ':' && !colon)
			colon = s;
	}
	return false;
}

unsigned secret_line(const char *text, size_t len)
{
	const char *line = text, *all = text + len;

	for (unsigned n = 1; line < all; n++) {
		const char *end = memchr(line, '\n', (size_t)(all - line));

		end = end ? end : all;
		for (const char *s = line; s < end; s++)
			if (name_here(line, s, end) || key_here(line, s, end) ||
			    password_here(s, end))
				return n;
		line = end + (end < all);
	}
	return 0;
}
