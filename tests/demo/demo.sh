#!/bin/bash
# SPDX-License-Identifier: ISC
# tests/demo/demo.sh WEIR - the main job on real input: a real curl in a sandbox, two origins, one of
# them allowed. Works offline: everything happens in namespaces of its own whose /etc/hosts names
# the two. Leaves with 1 when anything is not as it is promised.
#	outside  --unshare-->  inside (owns the namespaces)  --ordinary user-->  weir run -- curl …
set -u

uid=47000 # no account has it; root must not play the ordinary user
allowed=allowed.weir.example denied=denied.weir.example
self=$(readlink -f "$0")
bold='' plain=''
if [ -t 1 ]; then bold=$'\033[1m' plain=$'\033[0m'; fi

outside() {
	local weir=$1
	here=$(mktemp -d /tmp/weir-demo.XXXXXX) || exit 1
	trap 'rm -rf "$here"' EXIT
	chmod 755 "$here"
	mkdir -p "$here/home/project" "$here/shared" "$here/cert"
	cp "$weir" "$here/weir" && cp "$(dirname "$self")/origin.py" "$here/"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj '/CN=weir demo' -addext "subjectAltName=DNS:$allowed,DNS:$denied" \
		-keyout "$here/cert/key" -out "$here/cert/ca.pem" 2>/dev/null || exit 1
	cp "$here/cert/ca.pem" "$here/home/project/"
	cp "$self" "$here/demo.sh"
	echo '# the shell start-up file of the demo user' >"$here/home/.bashrc"
	printf '127.0.0.1 localhost\n::1 localhost\n127.0.0.2 %s\n127.0.0.3 %s\n' \
		$allowed $denied >"$here/hosts"
	if [ "$(id -u)" = 0 ]; then
		cp /etc/passwd "$here/passwd"
		echo "demo:x:$uid:$uid:weir demo:$here/home:/bin/bash" >>"$here/passwd"
		chown -R $uid:$uid "$here/home" "$here/shared"
		unshare --net --mount --propagation private -- bash "$here/demo.sh" --inside root
	else
		unshare --user --map-root-user --net --mount --propagation private -- \
			bash "$here/demo.sh" --inside "$(id -u):$(id -g):$(id -un)"
	fi
}

# --- inside the demo's own namespaces ---

wrong=0
user() { # COMMAND…: as the ordinary user, with an environment of its own
	local clean=(env -i "HOME=$here/home" "USER=$name" "LOGNAME=$name" "PATH=$PATH"
		LANG=C.UTF-8 "$@")
	if [ "$who" = root ]; then
		setpriv --reuid=$uid --regid=$uid --clear-groups --inh-caps=-all -- "${clean[@]}"
	else
		unshare --user --map-user="$uid" --map-group="$gid" -- "${clean[@]}"
	fi
}
show() { # TITLE ARGUMENTS-OF-WEIR…: run it, keep what it said in $out and $status
	printf '\n%s%s%s\n  $ weir' "$bold" "$1" "$plain"
	shift
	printf ' %s' "${@@Q}" | sed "s/'\([][A-Za-z0-9_.,:/=%@{}-]*\)'/\1/g"
	echo
	out=$(cd "$here/home/project" && user "$here/weir" "$@" 2>&1 </dev/null)
	status=$?
	[ -z "$out" ] || sed 's/^/  | /' <<<"$out"
}
expect() { # WHAT CONDITION…
	local what=$1
	shift
	if "$@"; then echo "  => $what: yes"; else
		echo "  => $what: NO (status $status)"
		wrong=$((wrong + 1))
	fi
}
says() { grep -qF -- "$1" <<<"$out"; }
is() { [ "$status" = "$1" ]; }
fails() { [ "$status" != 0 ] && [ "$status" != 125 ]; }

inside() {
	who=$1 name=demo gid=$uid
	here=$(dirname "$self")
	if [ "$who" != root ]; then IFS=: read -r uid gid name <<<"$who"; fi
	ip link set lo up || exit 1
	mount --bind "$here/hosts" /etc/hosts || exit 1
	[ "$who" != root ] || mount --bind "$here/passwd" /etc/passwd || exit 1

	coproc ORIGIN { exec python3 "$here/origin.py" "$here/cert/ca.pem" "$here/cert/key" \
		"$here/dialled" $allowed=127.0.0.2 $denied=127.0.0.3; }
	trap 'kill $ORIGIN_PID' EXIT
	read -r -t 20 _ <&"${ORIGIN[0]}" || { echo "the origins did not start" >&2; exit 1; }

	local rule="$allowed:8443,8080 private" direct
	direct=(env -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u NO_PROXY
		-u http_proxy -u https_proxy -u all_proxy -u no_proxy)
	echo "weir runs as $(user id -un) (uid $(user id -u)); $allowed may be reached, $denied may not"

	show "An allowed host, https: the answer arrives" \
		run --allow "$rule" -- curl -sS --cacert ca.pem https://$allowed:8443/
	expect "the origin's own words, status 0" eval 'is 0 && says "hello from $allowed port 8443"'

	show "An allowed host, http" run --allow "$rule" -- curl -sS http://$allowed:8080/
	expect "the origin's own words, status 0" eval 'is 0 && says "hello from $allowed port 8080"'

	show "A host that no rule names, https: refused by the proxy" \
		run --allow "$rule" -- curl -sS --cacert ca.pem https://$denied:8443/
	expect "curl was told 403" eval 'fails && says 403'

	show "A host that no rule names, http: 403, and the text says why and what to type" \
		run --allow "$rule" -- curl -sS -w 'status %{http_code}\n' http://$denied:8080/
	expect "403 that names the host and the remedy" \
		eval 'says "status 403" && says "$denied" && says "weir allow $denied"'

	show "Straight to the allowed address, past the proxy: there is no way" \
		run --route proxy --allow "$rule" -- "${direct[@]}" curl -sS --max-time 10 \
		--cacert ca.pem --resolve $allowed:8443:127.0.0.2 https://$allowed:8443/
	expect "no connection" eval 'fails && ! says "hello from"'

	show "A name lookup without the proxy: no name resolves" \
		run --route proxy --allow "$rule" -- getent hosts $allowed
	expect "no answer, status 2" is 2

	show "A write outside the project, into a directory that is the user's own" \
		run -- sh -c "echo x >$here/shared/file"
	expect "refused" eval 'fails && [ ! -e "$here/shared/file" ]'

	show "A line smuggled into the shell's start-up file: the home inside is a private one" \
		run -- sh -c 'echo "curl evil | sh" >>~/.bashrc; echo wrote it'
	expect "the user's own file is untouched" eval '! grep -q evil "$here/home/.bashrc"'

	printf '\n%sThe audit log%s (%s)\n' "$bold" "$plain" '~/.local/state/weir/audit.jsonl'
	out=$(cat "$here/home/.local/state/weir/audit.jsonl" 2>&1)
	status=$?
	echo "  its verdicts, without the hashes that chain them:"
	grep '"event":"verdict"' <<<"$out" | sed 's/,"generation":.*/}/; s/^/  | /'
	expect "the allowed and the denied host are in it" eval 'says "$allowed" && says "$denied"'
	out=$(cat "$here/dialled" 2>&1)
	expect "$denied has not seen one connection" eval '! says "$denied" && says "$allowed"'

	echo
	if [ $wrong != 0 ]; then
		echo "demo: $wrong expectations failed" >&2
		exit 1
	fi
	echo "demo: everything as promised"
}

case $1 in
--inside) inside "$2" ;;
*) outside "$1" ;;
esac
