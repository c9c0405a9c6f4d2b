"""HTTP clients of the providers and of the upstream: proxies, certificates, cookies, and cancelling."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cofio.client import Client
from cofio.errors import Misconfigured, Unavailable
from cofio.providers.http import Provider, RetryPolicy, open_client
from cofio.server.openai_proxy.upstream import Upstream, UpstreamCall
from tests.embedders.wire import Reply, Wire

RETRY = RetryPolicy(timeout=5.0, attempts=1)


def provider(url: str, key: str = "") -> Provider:
    return Provider("the provider", url, key, RETRY, "Try again.", {})


@contextmanager
def tls_server(folder: Path, serve: Callable[[ssl.SSLSocket], None]) -> Iterator[tuple[str, Path]]:
    """Run a server of one TLS connection. Yield its address and its self-signed certificate."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl here to make a certificate")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def run() -> None:
        connection, _ = server.accept()
        try:
            with context.wrap_socket(connection, server_side=True) as secure:
                serve(secure)
        except OSError:
            pass  # the client refuses the certificate, or has cancelled

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=run)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}", certificate
        thread.join(30)


def test_requests_to_another_machine_use_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire() as proxy:
        proxy.say(Reply(body={"is": "here"}))
        monkeypatch.setenv("http_proxy", proxy.url.removeprefix("http://"))
        monkeypatch.setenv("no_proxy", "other.test")
        assert provider("http://models.test/v1").get("/models", 5.0) == {"is": "here"}
        assert [seen.path for seen in proxy.seen] == ["http://models.test/v1/models"]


def test_a_host_in_no_proxy_is_called_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "models.test")
    with pytest.raises(pytest.fail.Exception, match=r"another machine: models\.test"):
        provider("http://models.test/v1").get("/models", 5.0)


def test_a_proxy_that_is_not_http_is_reported_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for proxy in ("socks5://me:hunter2@127.0.0.1:1080", "what://me:hunter2@127.0.0.1"):
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(Misconfigured, match="not an HTTP proxy") as caught:
            provider("http://models.test/v1").get("/models", 5.0)
        assert "hunter2" not in str(caught.value)


def test_only_the_proxy_of_the_scheme_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    with open_client("http://models.test") as client:
        assert not client.is_closed


def test_cookies_are_not_sent_back() -> None:
    with Wire() as wire:
        wire.say(Reply(body={}, headers={"Set-Cookie": "__cf_bm=1; Path=/"}), Reply(body={}))
        asked = provider(wire.url)
        asked.get("/models", 5.0)
        asked.get("/models", 5.0)
        assert not any("Cookie" in seen.headers for seen in wire.seen)


def check_health(url: str) -> None:
    with Client(url) as client:
        client.health()


@pytest.mark.parametrize(
    "send",
    [lambda url: provider(url).get("/models", 5.0), lambda url: Upstream(url).prepare("/models").open(), check_health],
    ids=["provider", "upstream", "client"],
)
def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path, send: Callable[[str], object]) -> None:
    with (
        tls_server(tmp_path, lambda connection: None) as (url, _),
        pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        send(url)


def read_reply(call: UpstreamCall) -> None:
    call.open()
    call.read_all()


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\npart"], ids=["waiting", "reading"]
)
def test_another_thread_cancels_a_request_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    sent = threading.Event()

    def stall(connection: ssl.SSLSocket) -> None:
        connection.recv(65_536)
        connection.sendall(head)
        sent.set()
        connection.recv(65_536)

    with tls_server(tmp_path, stall) as (url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        call = Upstream(url, timeout=60).prepare("/models")
        canceller = threading.Thread(target=lambda: sent.wait(30) and call.cancel())
        canceller.start()
        with pytest.raises(Unavailable), closing(call):
            read_reply(call)
        canceller.join()


def test_a_request_cancelled_before_it_is_sent_fails() -> None:
    with Wire() as wire:
        call = Upstream(wire.url).prepare("/models")
        call.cancel()
        with pytest.raises(Unavailable):
            call.open()
        call.close()
