/* SPDX-License-Identifier: ISC */
/* policy/preset.c - find a preset by name. Their text is policy/presets/NAME.policy, made into C by
 * embed.sh when weir is built. */
#include "policy/internal.h"

#include <string.h>

#include "common/scope.h"

const struct policy_preset *preset_find(const char *name)
{
	for (const struct policy_preset *k = policy_presets(); k->name; k++)
		if (str_eq(k->name, name))
			return k;
	return NULL;
}
