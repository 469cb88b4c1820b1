/* SPDX-License-Identifier: ISC */
/* sandbox/toolroots.c - the table of toolchains that live below a home directory.
 * Pure data. Each is shared read-only, through an overlay that hides what may be a credential: the
 * names of sandbox/credentials.c, and those below that a package manager keeps within a toolchain. */
#include "sandbox/toolroots.h"

#include <stddef.h>

/* clang-format off */
const struct toolroot_row toolroots[] = {
	/* programs that link into the managers' own directories; never all of ~/.local/share, where
	 * keyrings and containers are */
	{ ".local/bin", "pip --user, pipx, uv, mise, poetry",
	  { ".local/bin", ".local/lib", ".local/share/pipx", ".local/pipx", ".local/share/uv",
	    ".local/share/mise", ".local/share/pypoetry", NULL } },
	{ ".local/share/uv", "uv's pythons and tools",
	  { ".local/share/uv", NULL } },
	{ ".local/share/pipx", "pipx", { ".local/share/pipx", NULL } },
	{ ".local/pipx", "pipx, older", { ".local/pipx", NULL } },
	{ ".local/share/mise", "mise; its shims lead to ~/.local/bin/mise",
	  { ".local/share/mise", ".local/bin", NULL } },
	{ ".local/share/rtx", "mise, older", { ".local/share/rtx", NULL } },
	{ ".local/share/fnm", "fnm", { ".local/share/fnm", NULL } },
	{ ".fnm", "fnm, older", { ".fnm", NULL } },
	{ ".local/share/pnpm", "pnpm", { ".local/share/pnpm", NULL } },
	{ ".local/share/virtualenvs", "pipenv", { ".local/share/virtualenvs", NULL } },
	{ ".virtualenvs", "virtualenvwrapper", { ".virtualenvs", NULL } },
	{ ".local/share/hatch", "hatch", { ".local/share/hatch", NULL } },
	{ ".local/share/pypoetry", "poetry", { ".local/share/pypoetry", NULL } },
	/* the rest of ~/.cargo holds credentials and what was downloaded */
	{ ".cargo/bin", "rustup's proxies, cargo install", { ".cargo/bin", ".rustup", NULL } },
	{ ".rustup", "rust", { ".rustup", NULL } },
	{ ".pyenv", "pyenv; a shim asks all of it which version is meant", { ".pyenv", NULL } },
	{ ".rbenv", "rbenv", { ".rbenv", NULL } },
	{ ".rvm", "rvm", { ".rvm", NULL } },
	{ ".nodenv", "nodenv", { ".nodenv", NULL } },
	{ ".goenv", "goenv", { ".goenv", NULL } },
	{ ".jenv", "jenv", { ".jenv", NULL } },
	{ ".plenv", "plenv", { ".plenv", NULL } },
	{ ".asdf", "asdf", { ".asdf", NULL } },
	{ ".nvm", "nvm; npm's settings for all users of a version are absent", { ".nvm", NULL } },
	{ ".volta", "volta", { ".volta", NULL } },
	{ ".bun", "bun", { ".bun", NULL } },
	{ ".deno", "deno", { ".deno", NULL } },
	{ ".sdkman", "sdkman: java, gradle, maven", { ".sdkman", NULL } },
	{ ".jdks", "JDKs of an IDE", { ".jdks", NULL } },
	{ ".juliaup", "juliaup; the versions are below ~/.julia",
	  { ".juliaup", ".julia/juliaup", NULL } },
	{ ".julia/juliaup", "julia", { ".julia/juliaup", ".juliaup", NULL } },
	{ ".ghcup", "ghcup: ghc, cabal, stack", { ".ghcup", NULL } },
	{ ".cabal/bin", "cabal install", { ".cabal/bin", ".ghcup", NULL } },
	{ ".opam", "opam", { ".opam", NULL } },
	{ ".elan", "lean", { ".elan", NULL } },
	{ ".pixi", "pixi", { ".pixi", NULL } },
	{ ".rye", "rye", { ".rye", NULL } },
	{ ".dotnet", "dotnet", { ".dotnet", NULL } },
	{ ".foundry", "foundry", { ".foundry", NULL } },
	{ "go/bin", "go install: programs alone, nothing of the module cache", { "go/bin", NULL } },
	{ "sdk", "go, by golang.org/dl", { "sdk", NULL } },
	{ NULL, NULL, { NULL } },
};

const char *const toolroot_marks[] = {
	"pyvenv.cfg",	/* a virtual environment */
	"conda-meta",	/* a conda environment */
	"lib", "lib64",	/* a prefix */
	"VERSION",	/* go */
	"release",	/* a JDK */
	NULL,
};

const char *const toolroot_parts[] = {
	"bin", "lib", "lib64", "include", "ssl", NULL,
};

const char *const toolroot_secrets[] = {
	"pip.conf",		/* an index password, of one environment */
	"etc/npmrc", ".npmrc",	/* an index token, of all who use this node */
	".condarc", "condarc",	/* an index password */
	"etc/gitconfig",	/* a header with a token */
	NULL,
};

const char *const toolroot_nests[] = {
	"versions/*",			/* pyenv and its kin */
	"versions/node/*",		/* nvm */
	"node-versions/*/installation", /* fnm */
	"venvs/*", "tools/*", "python/*", /* pipx, uv */
	"envs/*",			/* conda */
	"installs/*/*",			/* asdf, mise */
	"tools/image/*/*",		/* volta */
	NULL,
};
/* clang-format on */
