// SPDX-License-Identifier: ISC
// tests/system/nodepty.js MODULE - terminals by node-pty itself, told what to do line by line (JSON).
'use strict';
const pty = require(process.argv[2]);
const terminals = new Map();
const say = (o) => process.stdout.write(JSON.stringify(o) + '\n');

const verbs = {
	spawn({ id, file, args, cols, rows, cwd, env, flow }) {
		const t = pty.spawn(file, args, {
			name: 'xterm-256color', cols, rows, cwd, env, encoding: null, handleFlowControl: flow,
		});
		terminals.set(id, t);
		t.onData((d) => say({ id, data: Buffer.from(d).toString('base64') }));
		t.onExit(({ exitCode, signal }) => say({ id, exit: exitCode, signal }));
		say({ id, pid: t.pid });
	},
	write: ({ id, data }) => terminals.get(id).write(Buffer.from(data, 'base64')),
	resize: ({ id, cols, rows }) => terminals.get(id).resize(cols, rows),
	pause: ({ id }) => terminals.get(id).pause(),
	resume: ({ id }) => terminals.get(id).resume(),
	kill: ({ id, signal }) => terminals.get(id).kill(signal),
	title: ({ id }) => say({ id, process: terminals.get(id).process }),
};

require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
	const o = JSON.parse(line);
	verbs[o.verb](o);
});
