/* SPDX-License-Identifier: ISC */
/* sandbox/credentials.h - places that are never shared, and places that run what lies in them */
#ifndef WEIR_SANDBOX_CREDENTIALS_H
#define WEIR_SANDBOX_CREDENTIALS_H

/** struct place_row - a path and what is there, for the message. Ends with a NULL path */
struct place_row {
	const char *path, *what;
};

/** credentials_home - relative to a home directory: absent in every view, refused as a grant */
extern const struct place_row credentials_home[];
/** credentials_system - absolute: the same */
extern const struct place_row credentials_system[];
/** credentials_etc - relative to /etc: absent in every view. credentials_etc_root: when root runs weir */
extern const struct place_row credentials_etc[], credentials_etc_root[];
/** autorun_home - relative to a home directory: what is written there runs outside, later.
 * Refused as a write grant unless "write!" */
extern const struct place_row autorun_home[];
/** system_dirs - absolute: directories that belong to the system, and what is refused there.
 * SYSTEM_NOTHING: the directory and all beneath it; SYSTEM_NO_WRITE: the directory, and beneath it
 * writing; SYSTEM_SELF: the directory itself; SYSTEM_READ: writing the directory itself. Ends with a NULL path */
struct system_row {
	const char *path;
	enum system_use { SYSTEM_NOTHING, SYSTEM_NO_WRITE, SYSTEM_SELF, SYSTEM_READ } use;
	const char *what;
};
extern const struct system_row system_dirs[];

#endif
