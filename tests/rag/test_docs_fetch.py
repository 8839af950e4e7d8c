"""``rag fetch`` against a web server of our own: what is kept, resumed, refused and told."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stitchcuda.core.errors import RetrievalError
from stitchcuda.nvidia_docs import SOURCES_FILE
from stitchcuda.rag_index import (
    DocsIndex,
    Document,
    FetchResult,
    Source,
    configured_sources,
    fetch_documents,
    read_documents,
)

pytestmark = pytest.mark.usefixtures("loopback")

GUIDE = b"<h1>Guide</h1><p>The zebra instruction moves stripes.</p>" + (b"<p>" + b"filler words " * 20 + b"</p>") * 1000


@dataclass
class Site:
    """What the server serves and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut_at: dict[str, int] = field(default_factory=dict)
    """Close the connection after so many bytes, once."""
    moved: dict[str, str] = field(default_factory=dict)
    """Where a path is now."""
    hidden_length: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(path, Range or If-None-Match)"""


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site = self.site
        wanted = self.headers.get("Range") or self.headers.get("If-None-Match") or ""
        site.asked.append((self.path, wanted))
        if self.path in site.moved:
            self.send_response(302)
            self.send_header("Location", site.moved[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = site.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        tag = f'"{hashlib.sha256(body).hexdigest()[:8]}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(304)
            self.end_headers()
            return
        start = 0
        if wanted.startswith("bytes=") and self.headers.get("If-Range") == tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("ETag", tag)
        if not site.hidden_length:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = site.cut_at.pop(self.path, len(body))
        self.wfile.write(body[start:end])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    handler = type("SiteHandler", (Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(
    cache: Path, url: str, *, refresh: bool = False, most_bytes: int = 2**20, **entry: object
) -> list[FetchResult]:
    document = Document.model_validate({"title": "T", "url": url, "format": "html", **entry})
    return fetch_documents(cache, {"guide": document}, refresh=refresh, most_bytes=most_bytes, pause_s=0)


def documents_of(cache: Path) -> list[Source]:
    """What of the cache's sources was fetched: the notes are not the matter here."""
    return [source for source in configured_sources(cache) if source.name == "documents"]


def test_fetched_pages_are_indexed_with_links_and_not_asked_for_again(site: Site, tmp_path: Path) -> None:
    site.files["/docs/"] = GUIDE
    (result,) = fetch(tmp_path, f"{site.url}/docs/")
    assert (result.status, result.size_bytes) == ("fetched", len(GUIDE))
    with DocsIndex.open(tmp_path, documents_of(tmp_path)) as index:
        hit = index.query("zebra moves stripes")[0]
        assert (hit.source, hit.citation, hit.link) == ("documents", "guide/index.html › Guide", f"{site.url}/docs/")
    asked = len(site.asked)
    assert fetch(tmp_path, f"{site.url}/docs/")[0].status == "kept"
    assert len(site.asked) == asked
    # A refresh asks whether it changed, and takes what did.
    assert fetch(tmp_path, f"{site.url}/docs/", refresh=True)[0].status == "kept"
    site.files["/docs/"] = GUIDE.replace(b"zebra", b"okapi")
    assert fetch(tmp_path, f"{site.url}/docs/", refresh=True)[0].status == "fetched"
    with DocsIndex.open(tmp_path, documents_of(tmp_path)) as index:
        assert "okapi" in index.query("okapi moves stripes")[0].text
    # A file that was damaged on disk is fetched anew.
    (tmp_path / "fetched" / "guide" / "index.html").write_bytes(b"cut")
    assert fetch(tmp_path, f"{site.url}/docs/")[0].status == "fetched"


def test_a_broken_download_goes_on_where_it_ended(site: Site, tmp_path: Path) -> None:
    site.files["/big.html"] = GUIDE
    site.cut_at["/big.html"] = 100_000
    (first,) = fetch(tmp_path, f"{site.url}/big.html")
    assert first.status == "failed"
    assert f"the connection ended after 100000 of {len(GUIDE)} bytes" in first.problem
    assert not (tmp_path / "fetched" / "guide" / "big.html").exists()
    (second,) = fetch(tmp_path, f"{site.url}/big.html")
    assert (second.status, second.resumed_from_bytes) == ("fetched", 100_000)
    assert site.asked[-1] == ("/big.html", "bytes=100000-")
    assert (tmp_path / "fetched" / "guide" / "big.html").read_bytes() == GUIDE


def test_a_document_that_changed_in_between_is_fetched_whole(site: Site, tmp_path: Path) -> None:
    site.files["/big.html"] = GUIDE
    site.cut_at["/big.html"] = 100_000
    fetch(tmp_path, f"{site.url}/big.html")
    site.files["/big.html"] = GUIDE.replace(b"zebra", b"okapi")
    (second,) = fetch(tmp_path, f"{site.url}/big.html")
    assert (second.status, second.resumed_from_bytes) == ("fetched", 0)
    assert (tmp_path / "fetched" / "guide" / "big.html").read_bytes() == site.files["/big.html"]


def test_digests_are_checked(site: Site, tmp_path: Path) -> None:
    site.files["/a.html"] = GUIDE
    (result,) = fetch(tmp_path, f"{site.url}/a.html", sha256="0" * 64)
    assert result.status == "failed"
    assert "digest" in result.problem
    assert not list((tmp_path / "fetched").rglob("*.html*"))
    assert fetch(tmp_path, f"{site.url}/a.html", sha256=hashlib.sha256(GUIDE).hexdigest())[0].status == "fetched"


@pytest.mark.parametrize("hidden", [True, False])
def test_a_document_over_the_limit_is_refused(site: Site, tmp_path: Path, hidden: bool) -> None:
    site.files["/a.html"] = GUIDE
    site.hidden_length = hidden
    (result,) = fetch(tmp_path, f"{site.url}/a.html", most_bytes=70_000)
    assert result.status == "failed"
    assert "limit of 0.1 MiB" in result.problem


def test_the_rules_of_the_site_are_kept(site: Site, tmp_path: Path) -> None:
    site.files["/robots.txt"] = b"User-agent: *\nDisallow: /private/\n"
    site.files["/private/a.html"] = GUIDE
    site.files["/a.html"] = GUIDE
    (result,) = fetch(tmp_path, f"{site.url}/private/a.html")
    assert "robots.txt does not allow it" in result.problem
    assert [path for path, _ in site.asked] == ["/robots.txt"]
    assert fetch(tmp_path, f"{site.url}/a.html")[0].status == "fetched"


def test_links_below_the_document_are_followed_up_to_a_limit(site: Site, tmp_path: Path) -> None:
    links = '<a href="one.html#x">1</a><a href="two.html">2</a><a href="/other/three.html">3</a><a href="a.zip">4</a>'
    site.files["/docs/index.html"] = f"<h1>Index</h1>{links}".encode()
    site.files["/docs/one.html"] = b'<h1>One</h1><a href="two.html">2</a><a href="index.html">0</a>'
    site.files["/docs/two.html"] = b'<h1>Two</h1><a href="four.html">4</a>'
    site.files["/docs/four.html"] = b"<h1>Four</h1>"
    results = fetch(tmp_path, f"{site.url}/docs/index.html", max_pages=3)
    assert [result.url.rsplit("/")[-1] for result in results] == ["index.html", "one.html", "two.html"]
    assert len(fetch(tmp_path, f"{site.url}/docs/index.html", max_pages=9)) == 4


def test_a_document_of_many_pages_is_followed_within_its_own_folder(site: Site, tmp_path: Path) -> None:
    links = (
        '<a href="../outside.html">0</a><a href="/docs-of-others/x.html">1</a><a href="parts/a.html?highlight=x">2</a>'
        '<a href="parts/a.html#b">3</a><a href="index.html">4</a><a href="http://[">5</a><a href="gone.html">6</a>'
        '<a href="parts/">7</a><a href="parts/index.html">8</a><a href="away.html">9</a>'
    )
    site.moved["/docs/"] = "/docs/v13/index.html"  # as sites do that keep several versions
    site.moved["/docs/v13/away.html"] = "/outside.html"
    site.files |= {
        "/outside.html": b"<h1>Outside</h1>",
        "/docs/v13/index.html": f"<h1>Index</h1>{links}".encode(),
        "/docs/v13/parts/a.html": b'<h1 id="okapi">Part A</h1><p>The okapi unit walks.</p><a href="../">0</a>',
        "/docs/v13/parts/": b'<h1>Parts</h1><a href="deep/b.html">b</a>',
        "/docs/v13/parts/deep/b.html": b"<h1>Part B</h1><p>The tapir unit swims.</p>",
    }
    results = {
        result.url.removeprefix(site.url): result for result in fetch(tmp_path, f"{site.url}/docs/", max_pages=9)
    }
    taken = {path for path, result in results.items() if result.status == "fetched"}
    folder = "/docs/v13/"
    assert taken == {"/docs/", f"{folder}parts/a.html", f"{folder}parts/", f"{folder}parts/deep/b.html"}
    assert "answers 404" in results[f"{folder}gone.html"].problem
    assert "leads out of the document's folder" in results[f"{folder}away.html"].problem
    assert len(results) == 6
    assert not [path for path, _ in site.asked if path.startswith("/docs-of-others")]
    with DocsIndex.open(tmp_path, documents_of(tmp_path)) as index:
        assert index.query("okapi walks")[0].link == f"{site.url}{folder}parts/a.html#okapi"
        assert index.query("tapir swims")[0].page.startswith("guide/")
    # The second time nothing is asked for but what failed, and the links are followed all the same.
    before = len(site.asked)
    again = fetch(tmp_path, f"{site.url}/docs/", max_pages=9)
    assert sorted(result.status for result in again) == ["failed"] * 2 + ["kept"] * 4
    asked = {path for path, _ in site.asked[before:]}
    assert asked == {"/robots.txt", f"{folder}gone.html", f"{folder}away.html", "/outside.html"}


def test_each_failure_is_one_line_and_the_rest_is_fetched(site: Site, tmp_path: Path) -> None:
    site.files["/good.html"] = GUIDE
    addresses = {"gone": f"{site.url}/gone.html", "closed": "http://127.0.0.1:9/x", "file": "file:///etc/passwd"}
    documents = {
        key: Document(title=key, url=url, format="html")
        for key, url in {**addresses, "good": f"{site.url}/good.html"}.items()
    }
    documents["headers"] = Document(title="headers", format="installed")
    results = {result.key: result for result in fetch_documents(tmp_path, documents, pause_s=0)}
    assert set(results) == {"gone", "closed", "file", "good"}
    assert "the server answers 404" in results["gone"].problem
    assert "refused" in results["closed"].problem
    assert "not an http or https address" in results["file"].problem
    assert results["good"].status == "fetched"
    assert not any("\n" in result.problem for result in results.values())
    with pytest.raises(RetrievalError, match="has no nonsense; it has gone"):
        fetch_documents(tmp_path, documents, only=["nonsense"])


def test_our_list_of_documents_is_usable(tmp_path: Path) -> None:
    documents = read_documents(SOURCES_FILE)
    for key, document in documents.items():
        assert document.url.startswith("http") or document.format in ("installed", "observed"), key
    (tmp_path / "bad.toml").write_text("[x]\ntitle = 3\n")
    with pytest.raises(RetrievalError, match=r"bad\.toml cannot be used"):
        read_documents(tmp_path / "bad.toml")
