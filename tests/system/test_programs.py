# SPDX-License-Identifier: ISC
"""Programs that read no proxy variable, or let a file of the host's outweigh it, find the broker in
route proxy all the same: Java's tools, apt, cargo (SPEC 6)."""
import gzip
import os

import pytest

from world import need

HOST = "allowed.example.org"
PROXY = "127.0.0.1"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


# ---- the environment ----

CERTS = ["SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT",
         "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE"]


@pytest.mark.parametrize("where,kept", [("/etc/ssl/certs", True), ("project", True),
                                        ("/home/tester/elsewhere/ca.pem", False),
                                        ("/run/ca.pem", False), ("/etc/ssl/absent.pem", False)])
def test_authorities_of_ones_own_are_kept_when_they_are_visible(world, where, kept):
    cwd = world.project()
    world.write(f"{world.home}/elsewhere/ca.pem", "x")
    world.write("/run/ca.pem", "x", root=True)
    if where == "project":
        where = world.write(f"{cwd}/ca.pem", "x")
    r = world.run("-v", "-n", "deny", "--", "env", cwd=cwd, env={c: where for c in CERTS}).ok()
    for c in CERTS:
        assert (f"{c}={where}\n" in r.text) is kept, r
        assert (f"{c} is dropped from the environment: it names a path" in r.errtext) is not kept


def test_a_value_that_looks_like_a_secret_needs_its_name(world):
    """Also where the table keeps the name"""
    env = {"EDITOR": "vi --token=abc", "LESS": "ghp_0123456789", "TZ": "UTC"}
    r = world.run("-v", "-n", "deny", "--keep-env", "LESS", "--", "env", env=env).ok()
    assert "EDITOR" not in r.text and "LESS=ghp_0123456789\n" in r.text and "TZ=UTC" in r.text, r
    assert "EDITOR is dropped from the environment: its value looks like a secret" in r.errtext, r


# ---- Java ----

LINES = ["http.proxyHost=127.0.0.1", "http.proxyPort=3128", "https.proxyHost=127.0.0.1",
         "https.proxyPort=3128", "http.nonProxyHosts=localhost|127.*|[::1]"]
OPTIONS = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 " \
          "-Dhttps.proxyPort=3128"
BARE = {"PATH": "/bin-of-none:/usr/bin:/bin"}


@pytest.fixture(scope="module")
def jdk(world):
    """A JDK as a distribution lays it out: its configuration is in /etc"""
    home = world.mkdir(f"{world.home}/work/jdk")
    world.write("/etc/java-77-test/net.properties", "http.proxyHost=corp.example\n# end",
                root=True)
    world.write(f"{home}/bin/java", "#!/bin/sh\n", 0o755)
    os.symlink("/etc/java-77-test", world.path(f"{home}/conf"))
    return home


@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_java_is_told_by_its_own_file_where_that_lies_in_etc(world, jdk, by):
    env = {"JAVA_HOME": jdk} if by == "JAVA_HOME" else {"PATH": f"{jdk}/bin:/usr/bin:/bin"}
    r = world.run("--", "sh", "-c", "cat /etc/java-77-test/net.properties; env", env=env).ok()
    text, env = r.text.split("\n# written by weir", 1)
    assert text == "http.proxyHost=corp.example\n# end" and "JAVA_TOOL_OPTIONS" not in env, r
    assert all(f"{ln}\n" in env for ln in LINES), r
    assert world.read("/etc/java-77-test/net.properties").endswith(b"# end"), "the host's changed"


@pytest.mark.parametrize("state", ["deny", "allow"])
def test_java_is_told_nothing_where_there_is_no_proxy(world, jdk, state):
    r = world.run("-n", state, "--", "sh", "-c", "cat /etc/java-77-test/net.properties; env",
                  env={"JAVA_HOME": jdk}).ok()
    assert "127.0.0.1" not in r.text and "GRADLE_OPTS" not in r.text, r


def test_java_from_elsewhere_is_told_by_its_options(world):
    home = world.mkdir(f"{world.home}/work/jdk-of-ones-own")
    world.write(f"{home}/conf/net.properties", "# mine\n")
    env = {"JAVA_HOME": home, "JAVA_TOOL_OPTIONS": "-Xmx64m", **BARE}
    want = f"JAVA_TOOL_OPTIONS={OPTIONS} -Dhttp.nonProxyHosts=localhost|127.*|[::1]\n"
    r = world.run("--route", "proxy", "--", "env", env=env).ok()
    assert want in r.text, r
    r = world.run("--route", "proxy", "--keep-env", "JAVA_TOOL_OPTIONS", "--", "env", env=env).ok()
    assert want.replace("=-D", "=-Xmx64m -D", 1) in r.text, r
    for more in ([], ["--route", "both"]):	# it needs no telling, and each JVM would say that it was told
        r = world.run(*more, "--", "env", env=env).ok()
        assert "http_proxy=" in r.text and "JAVA_TOOL_OPTIONS" not in r.text, r
    # where what nobody asked for cannot be had, it is route proxy in this too
    off = {"WEIR_TEST_WITHOUT": "nf_tables"}
    r = world.run("--", "env", env={**env, **off}, test=True).ok()
    assert want in r.text, r
    assert "JAVA_TOOL_OPTIONS" not in world.run("-n", "deny", "--", "env", env=env).ok().text


def test_gradle_keeps_what_was_kept_by_name(world):
    r = world.run("--keep-env", "GRADLE_OPTS", "--", "env", env={"GRADLE_OPTS": "-Xmx1g"}).ok()
    assert f"GRADLE_OPTS=-Xmx1g {OPTIONS}\n" in r.text, r


def project_of(world, **files):
    cwd = world.project()
    for name, text in files.items():
        world.write(f"{cwd}/{name.replace('_', '.')}", text)
    return cwd


POM = """<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId>
<version>1</version><parent><groupId>org.example</groupId><artifactId>parent</artifactId>
<version>7</version><relativePath/></parent></project>"""
SETTINGS = """<settings><mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><blocked>false</blocked>
<url>http://{}/maven2</url></mirror></mirrors></settings>"""


@pytest.mark.clients
def test_maven_asks_through_the_proxy(net):
    need("mvn", "maven")
    net.web.routes["/maven2/org/example/parent/7/parent-7.pom"] = b"HTTP/1.1 404 Not Found\r\n" \
        b"Content-Length: 0\r\n\r\n"
    cwd = project_of(net, pom_xml=POM, settings_xml=SETTINGS.format(HOST),
                     denied_xml=SETTINGS.format("denied.example.net"))
    r = net.run("--", "mvn", "-B", "-q", "-s", "settings.xml", "validate", allow=[HOST], cwd=cwd)
    assert r.status == 1 and "Could not find artifact org.example:parent" in r.text, r
    assert ("GET", "/maven2/org/example/parent/7/parent-7.pom") in net.web.seen()
    r = net.run("--", "mvn", "-B", "-q", "-s", "denied.xml", "validate", allow=[HOST], cwd=cwd)
    assert r.status == 1 and "403" in r.text, r


@pytest.mark.clients
def test_gradle_asks_through_the_proxy(net):
    need("gradle", "gradle")
    net.web.routes["/m2/org/example/lib/7/lib-7.pom"] = POM.replace(">t<", ">lib<").encode()
    text = "buildscript {{ repositories {{ maven {{ url 'http://{}/m2' }} }}\n" \
           "dependencies {{ classpath 'org.example:lib:7' }} }}\n"
    for host in (HOST, "denied.example.net"):
        cwd = project_of(net, build_gradle=text.format(host))
        r = net.run("--", "gradle", "--no-daemon", "help", allow=[HOST], cwd=cwd, timeout=120)
        if host == HOST:
            assert ("GET", "/m2/org/example/lib/7/lib-7.pom") in net.web.seen(), r
        else:
            assert r.status == 1 and "403" in r.errtext, r


@pytest.mark.clients
def test_cargo_asks_through_the_proxy(net):
    need("cargo", "cargo")
    text = "[package]\nname = 't'\nversion = '1.0.0'\n[dependencies]\nlib = {{ git = 'http://{}/lib' }}\n"
    net.web.routes["/lib/info/refs"] = b"HTTP/1.1 404 Not Found\r\n" \
        b"Content-Length: 0\r\n\r\n"
    for host in (HOST, "denied.example.net"):
        cwd = project_of(net, Cargo_toml=text.format(host))
        net.write(f"{cwd}/src/lib.rs", "")
        r = net.run("--", "cargo", "fetch", allow=[HOST], cwd=cwd, env={"PATH": "/usr/bin:/bin"})
        assert r.status != 0 and ("404" if host == HOST else "403") in r.errtext, r
    assert ("GET", "/lib/info/refs?service=git-upload-pack") in net.web.seen()


# ---- apt ----

CORPORATE = 'Acquire::http::Proxy "http://corp.example:3128";\n' \
            'Acquire::https::Proxy "http://corp.example:3128";\n'


@pytest.fixture(scope="module")
def apt(net):
    """A repository with one package, and a host whose apt knows a proxy that is not there"""
    need("apt-get", "apt")
    need("dpkg-deb", "dpkg")
    net.write("/etc/apt/apt.conf.d/99corporate", CORPORATE, root=True)
    d = net.project()
    net.write(f"{d}/t/DEBIAN/control", "Package: weir-t\nVersion: 1\nArchitecture: all\n"
              "Maintainer: t <t@example.org>\nDescription: t\n")
    p = net.sh("chmod 755 t t/DEBIAN && dpkg-deb -b t t.deb >/dev/null && "
               "cat t/DEBIAN/control && sha256sum t.deb && stat -c %s t.deb", cwd=d)
    assert p.returncode == 0, p
    control, tail = p.stdout.decode().split("Description: t\n")
    packages = f"{control}Filename: t.deb\nSize: {tail.split()[-1]}\nSHA256: {tail.split()[0]}\n" \
               "Description: t\n\n"
    missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    net.web.routes.update({f"/apt/./{name}": missing for name in (
        "InRelease", "Release", "Packages.xz", "Packages.bz2", "Packages.lzma", "Packages.lz4",
        "Packages.zst")})
    net.web.routes["/apt/./Packages.gz"] = gzip.compress(packages.encode())
    net.web.routes["/apt/t.deb"] = net.read(f"{d}/t.deb")
    yield d
    net.path("/etc/apt/apt.conf.d/99corporate").unlink()


APT = """
    mkdir -p s/lists/partial c/archives/partial
    echo "deb [trusted=yes] http://$0/apt ./" > sources
    o="-o Dir::Etc::sourcelist=$PWD/sources -o Dir::Etc::sourceparts=- -o Dir::State=$PWD/s
       -o Dir::Cache=$PWD/c -o Dir::State::status=/dev/null -o Acquire::Retries=0"
    apt-get $o update >out 2>&1 && apt-get $o download weir-t >>out 2>&1
    echo $?; cat out >&2; ls"""


@pytest.mark.parametrize("root", [False, pytest.param(True, marks=pytest.mark.as_root)])
def test_apt_get_download_works_though_the_hosts_apt_names_a_proxy(net, apt, root):
    r = net.run("--", "sh", "-c", APT, HOST, allow=[HOST], root=root).ok()
    assert r.text.startswith("0\n") and "weir-t_1_all.deb\n" in r.text, r


def test_apt_is_told_why_a_host_is_denied(net, apt):
    r = net.run("--", "sh", "-c", APT, "denied.example.net", allow=[HOST]).ok()
    assert r.text[0] != "0" and "403" in r.errtext, r


def test_apts_drop_in_is_there_only_with_a_proxy(net, apt):
    for state, proxy in (("allowlist", f"http://{PROXY}:3128"), ("deny", "http://corp.example:3128")):
        r = net.run("-n", state, "--", "apt-config", "dump").ok()
        assert f'Acquire::http::Proxy "{proxy}";\n' in r.text, r
