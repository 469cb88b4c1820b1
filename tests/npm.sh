#!/bin/sh
# SPDX-License-Identifier: ISC
# tests/npm.sh DIRECTORY - what nightly tests need of the npm registry, built there against the headers
# of the node that is installed (libnode-dev, or those that came with it). npm knows the registry.
set -eu
mkdir -p "$1"
cd "$1"
[ -e package.json ] || echo '{ "private": true }' >package.json
if ! [ -e node_modules/node-pty/build/Release/pty.node ]; then
	npm_config_nodedir=${npm_config_nodedir:-/usr} npm install --no-save --no-audit --no-fund \
		--foreground-scripts node-pty@1.1.0 >npm.log 2>&1 || { cat npm.log >&2; exit 1; }
fi
node -e 'require("node-pty")'
