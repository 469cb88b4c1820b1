# SPDX-License-Identifier: ISC
"""Fixtures of the system tests. They build nothing: build/weir must be there (`make`).

As root, every weir runs as an ordinary user that exists only in its test world; tests marked
`as_root` run it as root too. Worlds share nothing, so `-n 2` works."""
import os
import pathlib
import resource
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import world as world_mod  # noqa: E402  pylint: disable=wrong-import-position

MARKS = ("clients: needs real clients that are heavy to install or slow",
         "nightly: too long for every check",
         "as_root: weir itself runs as root",
         "lifecycle: kills weir's processes")
FILES = 8192  # origins and, through the sandbox, their clients: 3,000 connections, two descriptors each


def pytest_configure(config):
    # nohup and & have them ignored, which a program that is started here would inherit; a handler not
    for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(s) == signal.SIG_IGN:
            signal.signal(s, lambda *a: None)
    # a login's 1,024 are for programs that select(2), which none here does
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < FILES:
        pytest.exit(f"{hard} descriptors are too few for these tests: ulimit -Hn {FILES}, or more", returncode=1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for m in MARKS:
        config.addinivalue_line("markers", m)


def pytest_addoption(parser):
    parser.addoption("--nightly", action="store_true", help="run the tests marked nightly too")
    parser.addoption("--clients", action="store_true", help="run the tests marked clients too")


def pytest_collection_modifyitems(config, items):
    """nightly and clients are left out (not skipped) unless asked for, by option or by -m; what is both is
    nightly's, which installs the clients too"""
    expr = config.getoption("-m") or ""
    keep, out = [], []
    for i in items:
        if i.get_closest_marker("nightly"):
            asked = config.getoption("--nightly") or "nightly" in expr
            (keep if asked else out).append(i)
        elif i.get_closest_marker("clients") and not config.getoption("--clients") and \
                "clients" not in expr:
            out.append(i)
        else:
            keep.append(i)
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = keep


def pytest_sessionstart(session):
    if not world_mod.WEIR.exists() and not session.config.option.collectonly:
        pytest.exit(f"{world_mod.WEIR} is not there: run make", returncode=1)


@pytest.fixture(scope="module")
def world():
    w = world_mod.World()
    yield w
    w.close()


@pytest.fixture
def fresh():
    """A world for one test"""
    w = world_mod.World()
    yield w
    w.close()


@pytest.fixture(autouse=True)
def _as_root(request):
    if request.node.get_closest_marker("as_root") and os.geteuid() != 0:
        pytest.skip("needs root to start as root")
