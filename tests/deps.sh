#!/bin/sh
# SPDX-License-Identifier: ISC
# tests/deps.sh - the Debian packages that building and checking weir need.
#	deps.sh check SET…	name what is missing and how to get it; exit 1
#	deps.sh install SET…	install what is missing, through sudo when not root, and say so
# Sets: build check clients nightly lint fuzz bench. Without dpkg the machine is taken as it is.
set -eu

# PACKAGE or PACKAGE:COMMAND, which any other source of that command, or file, satisfies too
# shellcheck disable=SC2034
{
	build='gcc:gcc make:make libc6-dev libseccomp-dev libcap-ng-dev libev-dev
		libhttp-parser-dev libc-ares-dev libjansson-dev libidn2-dev libunistring-dev
		libpsl-dev libsodium-dev'
	demo='curl:curl openssl:openssl python3 iproute2:ip util-linux'
	check="$demo libcmocka-dev python3-pytest python3-pytest-xdist python3-pexpect procps:ps
		strace:strace git:git libcap2-bin:capsh tinyproxy-bin:tinyproxy bubblewrap:bwrap
		redis-server:redis-server less:less vim:vim"
	clients="$check wget:wget python3-venv python3-pip nodejs:node npm:npm python3-socks
		openssh-client:ssh openssh-server:/usr/sbin/sshd rsync:rsync
		postgresql:psql proxychains4:proxychains4 golang-go:go r-base-core:Rscript
		python3-requests python3-httpx python3-aiohttp python3-websockets
		default-jdk-headless:java maven:mvn gradle:gradle cargo:/usr/bin/cargo
		gdb:gdb fontconfig:fc-list python3-matplotlib texlive-latex-base:pdflatex
		gpg:gpg gpg-agent:gpg-agent gpgconf:gpgconf flatpak:flatpak
		dbus-daemon:dbus-run-session apparmor:apparmor_parser python3-pytest-asyncio tmux:tmux zsh:zsh fish:fish ksh:ksh
		mariadb-client:mariadb mariadb-server:/usr/sbin/mariadbd
		g++:g++ libevent-dev libasio-dev libboost-dev node-ws ngtcp2-client:gtlsclient
		nginx-light:/usr/sbin/nginx netcat-openbsd:nc socat:socat bubblewrap:bwrap
		python3-jupyter-client python3-ipykernel python3-nbclient jupyter-notebook
		r-cran-irkernel python3-matplotlib python3-debugpy
		jupyterhub:jupyterhub node-configurable-http-proxy:configurable-http-proxy
		neovim:nvim"
	lint='cppcheck:cppcheck clang:clang clang-tidy:clang-tidy clang-format:clang-format
		mandoc:mandoc'
	fuzz='clang:clang libclang-rt-14-dev'
	nightly='chromium:chromium libnode-dev:/usr/include/node/node_api.h'
	bench='bubblewrap:bwrap tinyproxy:tinyproxy socat:socat squid:squid python3
		python3-ipykernel python3-jupyter-client'
}

verb=$1
shift
want=
for set; do
	eval "want=\"\$want \$$set\""
done
command -v dpkg-query >/dev/null 2>&1 || exit 0

missing=
for p in $want; do
	case $p in *:*) command -v "${p#*:}" >/dev/null 2>&1 || [ -e "${p#*:}" ] && continue ;; esac
	p=${p%%:*}
	case " $missing " in *" $p "*) continue ;; esac
	# shellcheck disable=SC2016
	case $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) in
	installed) ;;
	*) missing="$missing $p" ;;
	esac
done
missing=${missing# }
[ -n "$missing" ] || exit 0

if [ "$verb" = check ]; then
	echo "weir: packages are missing ($missing): run make deps" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	if ! command -v sudo >/dev/null 2>&1; then
		echo "weir: as root, run: apt-get install $missing" >&2
		exit 1
	fi
fi
echo "deps: installing $missing"
$sudo apt-get update -q >/dev/null
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing \
	>/dev/null
