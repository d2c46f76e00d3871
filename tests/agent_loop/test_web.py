"""The web_fetch tool, against a server on loopback. The address tests use addresses that are never connected to."""

import gzip
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import anyio
import pytest
from agent_loop import LocalExecutionEnvironment, ToolError, create_gemini_profile
from agent_loop.tools.html_text import html_to_text
from agent_loop.tools.web import MAX_REDIRECTS, is_public, web_fetch_tool
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PAGE = """<!doctype html><head><title>A &amp; B</title><style>p {}</style><body><nav><a href="/home">Home</a></nav>
<h1>Head  line</h1><p>One
  two <b>three</b>.<br>Four &lt;five&gt;.<script>var hidden = "<p>";</script>
<ul><li>a <a href="https://example.com/x">link</a><li>b</ul>
<pre>keep
   this</pre><table><tr><td>1<td>2</table><img alt="a picture" src=x>"""
TEXT = """A & B

Home (/home)

# Head line

One two three.
Four <five>.

- a link (https://example.com/x)
- b

keep
   this

 | 1 | 2

a picture"""


class Site:
    """Answers by path; `asked` has the request lines and the Host headers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.release = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers["host"]))
                if self.path == "/slow":
                    site.release.wait(30)
                status, headers, body = site.pages.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                # Whoever asked may have had enough.
                with suppress(OSError):
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def put(self, path: str, body: bytes = b"", status: int = 200, **headers: str) -> None:
        self.pages[path] = (status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, args=(0.01,))
    thread.start()
    yield site
    site.release.set()
    site.server.shutdown()
    thread.join()
    site.server.server_close()


async def fetch(url: str, **options: object) -> str:
    tool = web_fetch_tool(**{"allows": lambda address: str(address) == "127.0.0.1", **options})  # type: ignore[arg-type]
    output = tool.executor({"url": url}, LocalExecutionEnvironment("."))
    assert not isinstance(output, str)
    result = await output  # type: ignore[misc]
    assert isinstance(result, str)
    return result


def test_html_becomes_what_a_person_reads() -> None:
    assert html_to_text(PAGE) == TEXT


@pytest.mark.parametrize("html", ["", "<", "<p", "</a></li>", "<svg><p>x", "&#xD800; &bogus;", "<!--", "<a href><b>"])
def test_no_html_is_too_broken(html: str) -> None:
    assert isinstance(html_to_text(html), str)


async def test_a_page_comes_back_as_text(site: Site) -> None:
    site.put("/p?q=%C3%A9%20x", PAGE.encode(), content_type="text/html; charset=utf-8")
    shown = await fetch(f"{site.url}/p?q=é x#part")
    assert shown == f"{site.url}/p?q=é x#part (200, text/html; charset=utf-8)\n\n{TEXT}"
    assert site.asked == [("/p?q=%C3%A9%20x", f"127.0.0.1:{site.port}")]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ("naïve".encode("latin-1"), {"content_type": "text/plain; charset=iso-8859-1"}),
        ("naïve".encode(), {"content_type": "text/plain"}),
        ("naïve".encode(), {"content_type": "text/plain; charset=no-such-charset"}),
        ("naïve".encode(), {}),
        (b'<meta charset="latin1">na\xefve', {"content_type": "text/html"}),
        (gzip.compress("naïve".encode(), mtime=0), {"content_type": "text/plain", "content_encoding": "gzip"}),
    ],
)
async def test_characters_arrive_whatever_their_encoding(site: Site, body: bytes, headers: dict[str, str]) -> None:
    site.put("/", body, **headers)
    assert (await fetch(site.url)).endswith("\n\nnaïve")


async def test_what_is_too_long_is_cut_and_said(site: Site) -> None:
    site.put("/", b"x" * 1000, content_type="text/plain")
    assert (await fetch(site.url, max_bytes=10)).endswith(
        "\n\nxxxxxxxxxx\n[There is more; only the first 10 bytes were read.]"
    )
    site.put("/", gzip.compress(b"x" * 10_000_000, mtime=0), content_type="text/plain", content_encoding="gzip")
    assert len(await fetch(site.url, max_bytes=20_000)) < 20_200


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd", "no http or https address"),
        ("ftp://127.0.0.1/", "no http or https address"),
        ("example.com", "no http or https address"),
        ("http://", "no http or https address"),
        ("http://[::1", "no valid address"),
        ("http://127.0.0.1:99999/", "no valid address"),
        ("http://user:word@127.0.0.1/", "user name or password"),
    ],
)
async def test_what_is_not_fetched(url: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await fetch(url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0.0.0.0", "[::1]", "[fe80::1]",
        "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "100.64.0.1", "224.0.0.1", "2130706433", "0x7f.1",
    ],
)  # fmt: skip
async def test_addresses_that_are_not_public_are_refused(host: str) -> None:
    with pytest.raises(ToolError, match="not a public address"):
        await fetch(f"http://{host}:9/", allows=is_public)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://127.0.0.2:{port}/", "127.0.0.2, which is not a public address"),
        ("file:///etc/passwd", "no http or https address"),
        ("/loop", f"more than {MAX_REDIRECTS} redirects"),
    ],
)
async def test_redirects_are_held_to_the_same_rules(site: Site, location: str, message: str) -> None:
    site.put("/loop", status=302, location=location.format(port=site.port))
    with pytest.raises(ToolError, match=message):
        await fetch(f"{site.url}/loop")


async def test_redirects_are_followed(site: Site) -> None:
    site.put("/a/b", status=307, location="../c")
    site.put("/c", status=301, location=f"{site.url}/d")
    site.put("/d", b"there", content_type="text/plain")
    assert (await fetch(f"{site.url}/a/b")) == f"{site.url}/d (200, text/plain)\n\nthere"


async def test_failures_say_what_happened(site: Site) -> None:
    site.put("/image", b"\x89PNG", content_type="image/png")
    for path, message in (("/none", "404"), ("/image", "is not text")):
        with pytest.raises(ToolError, match=message):
            await fetch(site.url + path)
    with pytest.raises(ToolError, match="can't be fetched"):
        await fetch("http://127.0.0.1:1/")


def make_certificate(directory: Path, host: str) -> Path:
    """A certificate that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = directory / "certificate.pem"
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + secret)
    return file


@pytest.mark.parametrize("host", ["localhost", "example.org"])
async def test_certificates_are_checked(site: Site, tmp_path: Path, host: str) -> None:
    file = make_certificate(tmp_path, host)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(file)
    site.server.socket = served.wrap_socket(site.server.socket, server_side=True)
    site.put("/", b"secret", content_type="text/plain")
    url = f"https://localhost:{site.port}/"
    with pytest.raises(ToolError, match="CERTIFICATE_VERIFY_FAILED"):
        await fetch(url, allows=lambda address: True)
    trusting = ssl.create_default_context(cafile=str(file))
    if host == "localhost":
        assert (await fetch(url, allows=lambda address: True, ssl_context=trusting)).endswith("\n\nsecret")
    else:
        with pytest.raises(ToolError, match="CERTIFICATE_VERIFY_FAILED"):
            await fetch(url, allows=lambda address: True, ssl_context=trusting)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_slow_server_costs_no_more_than_the_limit(site: Site) -> None:
    with anyio.fail_after(10), pytest.raises(ToolError, match="did not answer within"):
        await fetch(f"{site.url}/slow", timeout_seconds=0.2)


def test_it_is_offered_only_where_the_host_asks_for_it() -> None:
    assert "web_fetch" not in create_gemini_profile().tool_registry.names()
    assert "web_fetch" in create_gemini_profile(web_fetch=True).tool_registry.names()
