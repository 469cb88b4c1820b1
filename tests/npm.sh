#!/bin/sh
# SPDX-License-Identifier: ISC
# tests/npm.sh DIRECTORY - what nightly tests need of the npm registry: node-pty, and the server of VS Code
# with a node of its version. Native parts are built here, against the headers of that node; npm knows
# the registry.
set -eu
mkdir -p "$1/code"
cd "$1"
log=$PWD/npm.log
: >"$log"
fail() {
	cat "$log" >&2
	exit 1
}
get() { npm install --no-audit --no-fund "$@" >>"$log" 2>&1 || fail; }

if ! [ -e node_modules/node-pty/build/Release/pty.node ]; then
	echo '{ "private": true }' >package.json
	npm_config_nodedir=${npm_config_nodedir:-/usr} get node-pty@1.1.0
fi
node -e 'require("node-pty")'

cd code
[ -e ready ] && exit 0
case $(uname -m) in aarch64) arch=arm64 ;; *) arch=x64 ;; esac
echo '{ "private": true }' >package.json
get --ignore-scripts code-server@4.96.4 "node-linux-$arch@20.18.1" node-gyp@10.2.0
at=$PWD/node_modules
ln -sf "node_modules/node-linux-$arch/bin/node" node
# its list of versions names sources outside the registry
rm -f "$at/code-server/lib/vscode/npm-shrinkwrap.json"
(cd "$at/code-server/lib/vscode" && get --omit=dev --ignore-scripts)
build() ( # DIRECTORY OPTION...
	cd "$1"
	shift
	"$at/../node" "$at/node-gyp/bin/node-gyp.js" rebuild --nodedir="$at/node-linux-$arch" "$@" \
		>>"$log" 2>&1 || fail
)
build "$at/argon2" --module_name=argon2 --module_path="$at/argon2/lib/binding/napi-v3" \
	--napi_version=3 --napi_build_version=3
for m in node-pty @vscode/spdlog native-watchdog @parcel/watcher; do
	build "$at/code-server/lib/vscode/node_modules/$m"
done
touch ready
