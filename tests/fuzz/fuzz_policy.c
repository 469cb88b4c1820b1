/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_policy.c - policy text, then one question to what came of it
 * Input: byte 0 the layer, then text. Any text either fails with FILE:LINE:COLUMN or seals to a
 * policy that can be asked, explained and shown. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/msg.h"
#include "policy/policy.h"
#include "policy/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct policy *p)
{
	static const char *const hosts[] = { "a.example", "x.ebi.ac.uk", "10.1.2.3", "fd00::1" };
	char text[MSG_TEXT_MAX + 1];
	FILE *null = fopen("/dev/null", "w");

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		const struct policy_rule *by = NULL;
		struct policy_match m;
		struct target t;
		struct addr a;

		if (target_parse(&t, hosts[i], 443) < 0 || addr_parse(&a, "10.1.2.3") < 0)
			abort();
		policy_match(p, &t, &m);
		(void)policy_judge_addr(p, &t, &m, &a, false, &by);
		if (policy_refusal(p, &t, m.reason, m.rule, &a, text, sizeof(text)) != strlen(text))
			abort();
	}
	if (!null)
		return;
	policy_show(p, null);
	(void)policy_show_json(p, NULL, null);
	(void)fclose(null);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char variable[] = "A=/a";
	static char *const env[] = { variable, NULL };
	const struct policy_context ctx = {
		.home = "/h", .cwd = "/c", .project = "/p", .environ = env
	};
	struct err e = { 0 };
	struct policy *p;
	char *text;

	if (size == 0)
		return 0;
	p = policy_new(&ctx);
	text = malloc(size); /* its exact size, so that a read past the end is seen */
	if (!p || !text)
		abort();
	memcpy(text, data + 1, size - 1);
	if (policy_add_text(p, (enum policy_layer)(1 + data[0] % (LAYER_FLAG - 1)), "f", text,
			    size - 1, &e) == 0 &&
	    policy_seal(p, NULL, NULL, &e) == 0)
		use(p);
	else if (strncmp(e.what, "f:", 2) != 0)
		abort();
	policy_free(p);
	free(text);
	return 0;
}
