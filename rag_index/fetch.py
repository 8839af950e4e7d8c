"""Fetch the official documents of ``sources.toml`` into the user's cache, politely and so that it can go on later.

Asks ``robots.txt``, waits between requests to a host, stops at a size limit, resumes a broken download where the server
allows it, checks a digest where one is given, and does not ask again for what lies whole in the cache. Each document
that fails is one line, and the others are still fetched. Nothing else in this room uses the network.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import urllib.robotparser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.files import write_json, write_text
from stitchcuda.core.records import Record
from stitchcuda.rag_index.catalogue import FetchedPage, read_fetched
from stitchcuda.rag_index.documents import Document

__all__ = ["FetchResult", "fetch_documents"]

USER_AGENT = "stitchcuda-rag/1 (documentation index of one user)"
TIMEOUT_S = 30.0
PAUSE_S = 0.5
"""Between two requests to a host, unless its robots.txt asks for more."""
LONGEST_PAUSE_S = 30.0
MOST_BYTES = 64 * 2**20
BLOCK_BYTES = 64 * 1024
_NETWORK = (urllib.error.URLError, http.client.HTTPException, OSError, ValueError)


class FetchResult(Record):
    """What became of one page."""

    key: str
    url: str
    status: Literal["fetched", "kept", "failed"]
    size_bytes: int = 0
    resumed_from_bytes: int = 0
    problem: str = ""


Report = Callable[[FetchResult], None]
Tick = Callable[[str, int, int], None]
"""Called with the URL, bytes so far, and bytes in all (0: not known)."""


def fetch_documents(
    cache_dir: Path,
    documents: dict[str, Document],
    *,
    only: Sequence[str] = (),
    refresh: bool = False,
    most_bytes: int = MOST_BYTES,
    pause_s: float = PAUSE_S,
    report: Report | None = None,
    tick: Tick | None = None,
) -> list[FetchResult]:
    """Fetch what is missing; the index takes it up at the next build.

    Args:
        cache_dir: The cache of the index; files go to ``fetched/`` inside.
        documents: What ``read_documents`` gave.
        only: Keys to fetch; all when empty.
        refresh: Ask the servers for newer versions of what lies in the cache too.
        most_bytes: Limit of one page.
        pause_s: Least pause between two requests to a host.
        report: Called with each page's result.
        tick: Called while a page arrives.

    Raises:
        RetrievalError: An unknown key, or the cache cannot be written.
    """
    unknown = sorted(set(only) - set(documents))
    if unknown:
        raise RetrievalError(f"sources.toml has no {', '.join(unknown)}; it has {', '.join(documents)}")
    fetcher = _Fetcher(cache_dir / "fetched", most_bytes, pause_s, refresh, tick)
    pages = {page.file: page for page in read_fetched(cache_dir)}
    results: list[FetchResult] = []
    for key, document in documents.items():
        if (only and key not in only) or document.format not in ("html", "pdf"):
            continue
        queue, seen, base = [document.url], {_plain(document.url)}, ""
        for _ in range(max(1, document.max_pages)):
            if not queue:
                break
            url = queue.pop(0)
            result, page = fetcher.fetch(key, document, url, pages, base)
            results.append(result)
            if report is not None:
                report(result)
            if page is None:
                continue
            pages[page.file] = page
            try:
                rows = [pages[name].model_dump(mode="json") for name in sorted(pages)]
                write_json(cache_dir / "fetched" / "fetched.json", rows)
            except OSError as error:
                raise RetrievalError(f"{cache_dir / 'fetched'} cannot be written: {error.strerror}") from error
            base = base or page.url.rsplit("/", 1)[0] + "/"
            seen.add(_plain(page.url))
            if document.format == "html" and document.max_pages > 1:
                for link in _links(cache_dir / "fetched" / page.file, page.url, base):
                    if _plain(link) not in seen:
                        seen.add(_plain(link))
                        queue.append(link)
    return results


@dataclass
class _Fetcher:
    folder: Path
    most_bytes: int
    pause_s: float
    refresh: bool
    tick: Tick | None
    _robots: dict[str, urllib.robotparser.RobotFileParser] = field(default_factory=dict)
    _asked_s: dict[str, float] = field(default_factory=dict)

    def fetch(
        self, key: str, document: Document, url: str, pages: dict[str, FetchedPage], base: str
    ) -> tuple[FetchResult, FetchedPage | None]:
        """One page: its result, and its entry when it lies whole in the cache.

        A page that the server sends elsewhere than below ``base`` is not taken; the first one decides what that is.
        """
        name = _file_name(key, document, url)
        path = self.folder / name
        old = pages.get(name)
        if old is not None and (not path.is_file() or _digest(path) != old.sha256):
            old = None  # removed or damaged: as if it had never been fetched
        if old is not None and not self.refresh and document.sha256 in ("", old.sha256):
            return FetchResult(key=key, url=url, status="kept", size_bytes=path.stat().st_size), old
        part = path.with_name(path.name + ".part")
        try:
            self._allow(url)
            page, start = self._download(key, url, name, part, old, base)
            if page is None:
                return FetchResult(key=key, url=url, status="kept", size_bytes=path.stat().st_size), old
            if document.sha256 and page.sha256 != document.sha256.lower():
                part.unlink()
                _state(part).unlink(missing_ok=True)
                raise RetrievalError(f"its digest is {page.sha256[:16]}…, not {document.sha256[:16]}… of sources.toml")
            part.replace(path)
            _state(part).unlink(missing_ok=True)
        except RetrievalError as error:
            return FetchResult(key=key, url=url, status="failed", problem=f"{key}: {url}: {one_line(error)}"), old
        except _NETWORK as error:
            reason = getattr(error, "reason", None) or error
            text = one_line(reason) if isinstance(reason, BaseException) else str(reason)
            if isinstance(error, urllib.error.HTTPError):
                text = f"the server answers {error.code} {error.reason}"
            return FetchResult(key=key, url=url, status="failed", problem=f"{key}: {url}: {text}"), old
        size = path.stat().st_size
        return FetchResult(key=key, url=url, status="fetched", size_bytes=size, resumed_from_bytes=start), page

    def _allow(self, url: str) -> None:
        """Check the site's rules, and wait as long as they ask."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RetrievalError("not an http or https address")
        site = f"{parts.scheme}://{parts.netloc}"
        if site not in self._robots:
            rules = urllib.robotparser.RobotFileParser()
            try:
                with _open(f"{site}/robots.txt", {}) as answer:
                    rules.parse(answer.read(512 * 1024).decode("utf-8", errors="replace").splitlines())
            except urllib.error.HTTPError as error:
                # RFC 9309: 4xx means that there are no rules (401 and 403 are taken as a no), 5xx that all is closed.
                closed = error.code in (401, 403) or error.code >= 500
                rules.parse(["User-agent: *", "Disallow: /"] if closed else [])
            self._robots[site] = rules
        if not self._robots[site].can_fetch(USER_AGENT, url):
            raise RetrievalError("the site's robots.txt does not allow it")
        asked = float(self._robots[site].crawl_delay(USER_AGENT) or 0)
        pause = min(max(self.pause_s, asked), LONGEST_PAUSE_S)
        waited = time.monotonic() - self._asked_s.get(site, -LONGEST_PAUSE_S)
        time.sleep(max(0.0, pause - waited))
        self._asked_s[site] = time.monotonic()

    def _download(
        self, key: str, url: str, name: str, part: Path, old: FetchedPage | None, base: str
    ) -> tuple[FetchedPage | None, int]:
        """Write the page to ``part``; ``None`` when the server says that ``old`` is still right."""
        part.parent.mkdir(parents=True, exist_ok=True)
        start, validator = _begun(part, url)
        headers = {}
        if start and validator:
            headers = {"Range": f"bytes={start}-", "If-Range": validator}
        elif old is not None:
            headers = {"If-None-Match": old.etag} if old.etag else {"If-Modified-Since": old.modified}
            headers = {name: value for name, value in headers.items() if value}
        try:
            answer = _open(url, headers)
        except urllib.error.HTTPError as error:
            if error.code == 304:
                return None, 0
            if error.code == 416:  # the part is as long as the document or longer: begin again
                part.unlink(missing_ok=True)
            raise
        with answer:
            if not answer.url.startswith(base):
                raise RetrievalError(f"it leads out of the document's folder, to {answer.url}")
            if answer.status != 206:
                start = 0
            length = int(answer.headers.get("Content-Length") or 0)
            total = start + length if length else 0
            if total > self.most_bytes:
                raise RetrievalError(f"{total / 2**20:.1f} MiB, over the limit of {self.most_bytes / 2**20:.1f} MiB")
            etag, modified = answer.headers.get("ETag") or "", answer.headers.get("Last-Modified") or ""
            strong = etag if etag and not etag.startswith("W/") else modified
            write_text(_state(part), json.dumps({"url": url, "validator": strong}))
            done = start
            with part.open("ab" if start else "wb") as stream:
                while block := answer.read(BLOCK_BYTES):
                    stream.write(block)
                    done += len(block)
                    if self.tick is not None:
                        self.tick(url, done, total)
                    if done > self.most_bytes:
                        raise RetrievalError(f"it is over the limit of {self.most_bytes / 2**20:.1f} MiB")
        if total and done < total:
            raise RetrievalError(
                f"the connection ended after {done} of {total} bytes; run it again to go on from there"
            )
        page = FetchedPage(key=key, url=answer.url, file=name, sha256=_digest(part), etag=etag, modified=modified)
        return page, start


def _open(url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT, **headers})
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    return answer


def _state(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _begun(part: Path, url: str) -> tuple[int, str]:
    """Bytes of an earlier try that can be continued, and what tells whether the document is still the same."""
    try:
        state = json.loads(_state(part).read_text())
        if state["url"] == url and state["validator"]:
            return part.stat().st_size, str(state["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, ""


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _file_name(key: str, document: Document, url: str) -> str:
    """A path inside the cache: the page's own name below the document's folder, without odd characters."""
    base = urllib.parse.urlsplit(document.url).path.rsplit("/", 1)[0]
    own = urllib.parse.unquote(urllib.parse.urlsplit(url).path).removeprefix(base).strip("/") or "index"
    stem = re.sub(r"\.(html?|xhtml|pdf)$", "", own, flags=re.I)
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-.")[:100] or "index"
    return f"{key}/{safe}.{document.format}"


class _LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.found.append(href)


def _plain(url: str) -> str:
    """``url`` as a key: a folder and its ``index.html`` are one page."""
    return re.sub(r"/index\.html?$", "/", url)


def _links(path: Path, url: str, base: str) -> list[str]:
    """The pages below the folder ``base`` that the page links to, without anchors and queries, in order."""
    parser = _LinkParser()
    parser.feed(path.read_text(encoding="utf-8", errors="replace"))
    found: dict[str, None] = {}
    for href in parser.found:
        try:
            parts = urllib.parse.urlsplit(urllib.parse.urljoin(url, href))
        except ValueError:  # half an address, such as http://[
            continue
        link = parts._replace(query="", fragment="").geturl()
        if link.startswith(base) and re.search(r"(/|\.html?)$", parts.path):
            found[link] = None
    return list(found)
