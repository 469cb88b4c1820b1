/* SPDX-License-Identifier: ISC */
/* broker/cli/kernelspec_wrap.c - a kernelspec's argv behind weir run.
 * The kernelspec may be a stranger's, from an environment that lies in a project. Its words stand behind
 * "--", where they are the sandbox's; what it sets in the environment would be weir's own when Jupyter
 * starts weir, and becomes an option. */
#include "broker/cli/kernelspec.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/layers.h"
#include "common/err.h"
#include "common/scope.h"

/* Jupyter starts "python" with its own interpreter. Behind weir run it is a word like any other, so that
 * the interpreter of the environment in which the kernelspec lies is named. */
static json_t *program(const char *from, const char *word)
{
	static const char tail[] = "/share/jupyter/kernels/";
	const char *at = strstr(from, tail);
	char path[PATH_MAX];

	if (at && strncmp(word, "python", 6) == 0 && !strchr(word, '/') &&
	    snprintf(path, sizeof(path), "%.*s/bin/%s", (int)(at - from), from, word) <
		    (int)sizeof(path) &&
	    access(path, X_OK) == 0)
		return json_string(path);
	return json_string(word);
}

static int word_add(json_t *argv, json_t *word)
{
	return json_array_append_new(argv, word) < 0 ? -ENOMEM : 0;
}

static int pair_add(json_t *argv, const char *option, json_t *value)
{
	int r = word_add(argv, json_string(option));

	return word_add(argv, value) < 0 ? -ENOMEM : r;
}

/* Do the options given say what @name is inside? */
static bool is_said(const struct layers_options *said, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < said->nflags; i++) {
		const struct layers_flag *f = &said->flags[i];
		const char *v = strchr(f->value, ' ');

		if (str_eq(f->keyword, "env") && v && strncmp(v + 1, name, n) == 0 &&
		    (v[1 + n] == '=' || v[1 + n] == '\0'))
			return true;
	}
	return false;
}

/* As an env line of the policy takes it. */
static bool is_variable(const char *name)
{
	return *name && (*name < '0' || *name > '9') &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_")] == '\0';
}

/* Jupyter replaces $NAME and ${NAME} by its own variables; here that would be an option's value. */
static int env_set(json_t *argv, const struct kernelspec_wrap *w, const char *key,
		   const json_t *value, struct err *e)
{
	const char *text = json_string_value(value);

	if (!is_variable(key)) {
		err_set(e, 0, "'%s' sets '%s', which is no name of a variable", w->from, key);
		return err_fix(e, "take it out of kernel.json");
	}
	if (is_said(w->said, key))
		return 0;
	if (!text || strchr(text, '$')) {
		err_set(e, 0, "'%s' sets %s to '%s'", w->from, key, text ? text : "no string");
		(void)err_why(e,
			      "what that stands for is known when a kernel starts, and it would be "
			      "weir's environment too");
		return err_fix(e,
			       "--env %s=VALUE says what it is inside, --keep-env %s that it is "
			       "Jupyter's own",
			       key, key);
	}
	return pair_add(argv, "--env", json_sprintf("%s=%s", key, text)) < 0
		       ? err_set(e, ENOMEM, "write the kernelspec")
		       : 0;
}

static bool has(const json_t *argv, const char *what)
{
	size_t i;
	json_t *word;

	json_array_foreach(argv, i, word) if (strstr(json_string_value(word), what)) return true;
	return false;
}

static int fill(json_t *argv, const json_t *spec, const struct kernelspec_wrap *w, struct err *e)
{
	const json_t *old = json_object_get(spec, "argv"), *env = json_object_get(spec, "env");
	const char *key;
	json_t *value;
	size_t i;
	int r = word_add(argv, json_string(w->exe)), x = 0;

	r |= word_add(argv, json_string("run"));
	r |= pair_add(argv, "--name", json_string(w->name));
	if (has(old, "{connection_file}"))
		r |= pair_add(argv, "--connection-file", json_string("{connection_file}"));
	if (has(old, "{resource_dir}"))
		r |= pair_add(argv, "--read", json_string("{resource_dir}"));
	if (env && !json_is_object(env))
		x = err_set(e, 0, "'%s' has an env that is no object", w->from);
	json_object_foreach((json_t *)(uintptr_t)env, key, value)
	{
		if (x == 0)
			x = env_set(argv, w, key, value, e);
	}
	if (x < 0)
		return x;
	for (int k = 0; k < w->noptions; k++)
		r |= word_add(argv, json_string(w->options[k]));
	r |= word_add(argv, json_string("--"));
	json_array_foreach(old, i, value)
		r |= word_add(argv, i == 0 ? program(w->from, json_string_value(value))
					   : json_string(json_string_value(value)));
	return r < 0 ? err_set(e, 0, "write the kernelspec: an option is not UTF-8") : 0;
}

int kernelspec_wrap(json_t *spec, const struct kernelspec_wrap *w, struct err *e)
{
	json_t *argv = json_array();
	int r = argv ? fill(argv, spec, w, e) : err_set(e, ENOMEM, "write the kernelspec");

	if (r < 0) {
		json_decref(argv);
		return r;
	}
	(void)json_object_del(spec, "env");
	return json_object_set_new(spec, "argv", argv) < 0
		       ? err_set(e, ENOMEM, "write the kernelspec")
		       : 0;
}
