"""HTML, PDF and header pages: what becomes of their structure, and what of broken ones."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from stitchcuda.core.errors import RetrievalError
from stitchcuda.rag_index import DocsIndex, Source
from stitchcuda.rag_index.chunks import architectures_in
from stitchcuda.rag_index.headers import parse_header
from stitchcuda.rag_index.html import parse_html
from stitchcuda.rag_index.packing import MOST_CHARS
from stitchcuda.rag_index.pdf import parse_pdf

HTML = b"""<!DOCTYPE html><html><head><title>Tile Guide</title><style>p {color: red}</style></head><body>
<nav><p>Home About Navigation</p></nav>
<main><h1>Tile Guide</h1><p>Read <b>this</b> first.</p>
<section id="moving"><h2>Moving tiles<a class="headerlink" href="#moving">\xc2\xb6</a></h2>
<p>A tile moves with <code>tile_move</code>.</p><pre>tile_move(a,
          b);   // # not a heading</pre>
<table><tr><th>size</th><th>cycles</th></tr><tr><td>16</td><td>40</td></tr></table>
<h4 id="deep">Far below</h4><ul><li>one</li><li>two <i>halves</i></li></ul></section>
<h2 id="last">Last</h2>loose words <div><p>The end.</p></div></main>
<script>alert("no")</script></body></html>"""

HEADER = r"""
/**
 * \defgroup TILES Tile Management
 * ___TILES___
 * @{
 */
/**
 * \brief Moves a tile.
 *
 * Moves the tile \p source to \p target, see ::tileSync.
 *
 * \param[out] target - Where it goes
 * \param source  Where it is
 * \return ::tileOk or ::tileErrorBusy
 * \sa ::tileNeighbour, ::tileOther
 * \internal
 * secret
 * \endinternal
 */
extern __host__ tileError_t TILEAPI tileMove(tile_t *target, const struct tile *source __dv(0));

/** Not documented enough to say: x. */
#if defined(A) && \
    defined(B)
/** Only on some devices is this one declared. */
#endif
__device__ inline float tile_sum(float x) { return x; }
/** @} */

/** Codes that tile functions return. */
enum tileError {
  /** All went well and the tile has moved. */
  tileOk = 0,
  tileErrorBusy = 7 /**< The tile is in use by another kernel. */
};

namespace tiles {
//! A pool of tiles that blocks share.
//! @tparam Size in tiles
template <int Size, typename T = float>
class Pool : public Base<T> {
 public:
  //! Takes one tile out of the pool, or waits.
  template <typename Policy> _TILE_DECL tile_t take(Policy policy = Policy{}) const noexcept;
};
}
/** Bytes of a tile on every device. */
#define TILE_BYTES 512  // do not change
"""


def pdf_bytes(pages: list[str], outline: list[tuple[str, int]] = ()) -> bytes:
    """A small PDF, one line of text per line of each page, with a flat outline."""
    objects: list[bytes] = [b"", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        lines = "".join(f"({line}) Tj T* " for line in text.splitlines())
        content = zlib.compress(f"BT /F1 11 Tf 14 TL 50 700 Td {lines}ET".encode())
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(content), content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(len(objects))
    first, root = len(objects) + 1, len(objects) + 1 + len(outline)
    for number, (title, page) in enumerate(outline):
        near = b"/Next %d 0 R" % (first + number + 1) if number + 1 < len(outline) else b""
        entry = (title.encode(), root, kids[page - 1], near)
        objects.append(b"<< /Title (%s) /Parent %d 0 R /Dest [%d 0 R /Fit] %s >>" % entry)
    if outline:
        ends = (first, root - 1, len(outline))
        objects.append(b"<< /Type /Outlines /First %d 0 R /Last %d 0 R /Count %d >>" % ends)
        objects[0] = b"<< /Type /Catalog /Pages 2 0 R /Outlines %d 0 R >>" % len(objects)
    else:
        objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % kid for kid in kids), len(kids))
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    tail = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (size, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + tail


def test_html_keeps_headings_code_tables_and_anchors() -> None:
    url = "https://docs.example/guide/"
    chunks = parse_html(HTML, source="s", page="guide.html", url=url)
    assert [(chunk.headings, chunk.link) for chunk in chunks] == [
        (("Tile Guide",), url),
        (("Tile Guide", "Moving tiles"), f"{url}#moving"),
        (("Tile Guide", "Moving tiles", "Far below"), f"{url}#deep"),
        (("Tile Guide", "Last"), f"{url}#last"),
    ]
    assert chunks[0].text == "Read this first."
    assert "```\ntile_move(a,\n          b);   // # not a heading\n```" in chunks[1].text
    assert "| size | cycles |\n| 16 | 40 |" in chunks[1].text
    assert chunks[2].text == "- one\n\n- two halves"
    assert chunks[3].text == "loose words\n\nThe end."
    assert not any(word in chunk.text for chunk in chunks for word in ("Navigation", "alert", "color"))


@pytest.mark.parametrize(
    "data",
    [b"", b"<p>unclosed <b>tags <div><h2>and", b"<div>" * 3000 + b"deep text", b"plain words, no tags", b"\xff<p>x"],
)
def test_odd_html_does_not_fail(data: bytes) -> None:
    for chunk in parse_html(data, source="s", page="p.html"):
        assert chunk.text
        assert chunk.headings


@pytest.mark.parametrize(
    "links",
    [
        '<div class="header"><p>Next: <a href="n.html" accesskey="n" rel="next">NEIGHBOUR</a></p></div>',
        '<div class="header"><p>Up: <a href="u.html">NEIGHBOUR</a> [<a href="i.html" rel="index">Index</a>]</p></div>',
        '<div class="navheader"><table><tr><td><a accesskey="p" href="p.html">NEIGHBOUR</a></td></tr></table></div>',
        '<div class="related" role="navigation"><ul><li><a href="n.html">NEIGHBOUR</a></li></ul></div>',
    ],
    ids=["texinfo", "texinfo_foot", "docbook", "sphinx"],
)
def test_links_to_neighbouring_pages_are_left_out(links: str) -> None:
    data = f'<body><div class="sect">{links}<h2>Tiles</h2><p>Tiles move.</p>{links}</div></body>'.encode()
    assert [chunk.text for chunk in parse_html(data, source="s", page="p.html")] == ["Tiles move."]
    # Doxygen's header holds the title.
    title = b'<div class="header"><div class="headertitle">tiles.h File Reference</div></div><p>Tiles move.</p>'
    assert "File Reference" in parse_html(title, source="s", page="p.html")[0].text


def test_a_binary_file_is_no_html() -> None:
    with pytest.raises(RetrievalError, match="binary"):
        parse_html(b"GIF89a\x00\x00\x01", source="s", page="p.html")


def test_a_long_code_block_is_cut_between_lines_and_stays_code() -> None:
    code = "\n".join(f"int value_{number} = {number};" for number in range(1000))
    chunks = parse_html(f"<h1>T</h1><pre>{code}</pre>".encode(), source="s", page="p.html")
    assert len(chunks) > 1
    for chunk in chunks:
        assert len(chunk.text) <= MOST_CHARS + 20
        assert chunk.text.startswith("```")
        assert chunk.text.endswith("```")
    lines = [line for chunk in chunks for line in chunk.text.splitlines() if line != "```"]
    assert lines == code.splitlines()


def test_pdf_sections_follow_the_outline_without_running_heads() -> None:
    names = ("alpha", "beta", "gamma", "delta", "omega")
    pages = [f"Tile Manual v9   {number}\nA body about {name}." for number, name in enumerate(names, start=1)]
    pages[1] = "Tile Manual v9   2\nEnd of the first part.\nMoving Tiles\nA tile moves in forty cycles."
    data = pdf_bytes(pages, [("First Part", 1), ("Moving Tiles", 2), ("Rest", 4)])
    chunks = parse_pdf(data, source="s", page="m.pdf", url="https://docs.example/m.pdf")
    found = {chunk.text.split("\n")[-1]: (chunk.headings[-1], chunk.link.rsplit("#")[-1]) for chunk in chunks}
    assert found["A body about alpha."] == ("First Part", "page=1")
    assert found["End of the first part."] == ("First Part", "page=2")
    assert found["A tile moves in forty cycles."] == ("Moving Tiles", "page=2")
    assert found["A body about gamma."] == ("Moving Tiles", "page=3")
    assert found["A body about omega."] == ("Rest", "page=5")
    assert not any("Tile Manual v9" in chunk.text for chunk in chunks)


def test_pdf_without_outline_is_cited_by_page() -> None:
    chunks = parse_pdf(pdf_bytes(["One.", "Two."]), source="s", page="m.pdf")
    assert [chunk.citation for chunk in chunks] == ["m.pdf › page 1", "m.pdf › page 2"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a PDF"),
        (b"<html>not found</html>", "not a PDF"),
        (b"%PDF-1.4\n" + b"\x00garbage" * 200, "broken PDF"),
        (pdf_bytes(["Some text."])[:200], "broken PDF"),
        (pdf_bytes([""]), "no text"),
    ],
)
def test_broken_pdfs_are_one_line(data: bytes, reason: str) -> None:
    with pytest.raises(RetrievalError, match=reason) as caught:
        parse_pdf(data, source="s", page="m.pdf")
    assert "\n" not in str(caught.value)


def test_header_functions_enumerators_classes_and_macros() -> None:
    chunks = parse_header(HEADER, source="h", page="tiles.h", path="/inc/tiles.h", toolkit="13.0")
    by_name = {chunk.headings[-1]: chunk for chunk in chunks}
    move = by_name["tileMove"]
    assert move.citation == "tiles.h › Tile Management › tileMove"
    assert "tileError_t TILEAPI tileMove(tile_t *target, const struct tile *source __dv(0))" in move.text
    assert "Moves the tile source to target, see tileSync." in move.text
    assert "- target: Where it goes" in move.text
    assert "Returns: tileOk or tileErrorBusy" in move.text
    assert not any(word in move.text for word in ("secret", "tileNeighbour", "extern", "\\"))
    lines = HEADER.splitlines()
    assert "tileMove(" in lines[int(move.link.removeprefix("/inc/tiles.h:")) - 1]
    assert move.toolkit == "13.0"
    assert "`tileErrorBusy = 7`: The tile is in use" in by_name["tileError"].text
    assert "`tileOk = 0`: All went well" in "".join(c.text for c in chunks if c.headings[-1] == "tileError")
    assert "inline float tile_sum(float x)" in by_name["tile_sum"].text
    assert by_name["take"].headings == ("tiles.h", "Pool", "take")
    assert "template <int Size, typename T = float> class Pool" in by_name["Pool"].text
    assert "#define TILE_BYTES 512" in by_name["TILE_BYTES"].text


@pytest.mark.parametrize(
    "text", ["", "/** never closed", "/** a comment long enough */", "/** " + "x" * 50 + " */ }}}{{{ ((("]
)
def test_odd_headers_do_not_fail(text: str) -> None:
    assert parse_header(text, source="h", page="x.h") == []


def test_architectures_are_read_from_the_text() -> None:
    assert architectures_in("needs sm_90a; on compute capability 8.6 and Hopper") == ("sm_90", "sm_86")
    assert architectures_in("a general remark about 90 threads") == ()


def test_a_folder_of_manuals_with_broken_ones_is_indexed_and_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    manuals = tmp_path / "manuals"
    (manuals / "deep").mkdir(parents=True)
    (manuals / "guide.html").write_bytes(HTML)
    (manuals / "deep" / "m.pdf").write_bytes(pdf_bytes(["The warp scheduler takes tickets."]))
    (manuals / "deep" / "tiles.h").write_text(HEADER)
    (manuals / "broken.pdf").write_bytes(b"%PDF-1.4\nbroken")
    (manuals / "cut.html").write_bytes(HTML[: HTML.index(b"</pre>")] + b"<tab")
    (manuals / "empty.html").write_bytes(b"")
    (manuals / "noise.html").write_bytes(bytes(range(128, 256)) * 40)
    (manuals / "binary.html").write_bytes(b"\x7fELF\0\0")
    (manuals / "gone.html").symlink_to(tmp_path / "nowhere.html")
    (manuals / "picture.png").write_bytes(b"\x89PNG")
    (manuals / ".hidden").mkdir()
    (manuals / ".hidden" / "no.md").write_text("# hidden tile")
    source = Source("manuals", manuals, urls={"guide.html": "https://docs.example/guide.html"})
    with DocsIndex.open(tmp_path / "cache", [source]) as index:
        problems = index.stats().problems
        assert not any("\n" in line for line in problems)
        assert {line.split("/")[-1] for line in problems} == {
            "broken.pdf: broken PDF: Stream has ended unexpectedly, left out",
            "empty.html: it has no text, left out",
            "noise.html: not HTML, its characters cannot be decoded, left out",
            "binary.html: not HTML, the file is binary, left out",
            "gone.html: No such file or directory",
        }
        assert capfd.readouterr().err == ""  # no library adds lines of its own
        assert index.query("warp scheduler tickets")[0].page == "deep/m.pdf"
        links = {hit.page: hit.link for hit in index.query("tile_move", k=2)}
        assert links == {"guide.html": "https://docs.example/guide.html#moving", "cut.html": ""}
        assert index.query("tileErrorBusy")[0].page == "deep/tiles.h"
        assert {hit.page for hit in index.query("tile", k=50)} == {"guide.html", "cut.html", "deep/tiles.h"}


def test_filters_by_architecture_and_toolkit(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "hopper.md").write_text("# Tiles\n\nOn sm_90 a tile moves by itself.\n")
    (pages / "ampere.md").write_text("# Tiles\n\nOn sm_80 a tile is carried.\n")
    (pages / "all.md").write_text("# Tiles\n\nA tile has sixteen rows.\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "tiles.md.html").write_bytes(HTML)
    sources = [Source("pages", pages), Source("old", tmp_path / "old", toolkit="11.8")]
    with DocsIndex.open(tmp_path / "cache", sources) as index:
        for mode in ("hybrid", "lexical", "vector"):
            hits = index.query("tile", k=9, where={"architecture": "sm_90", "source": "pages"}, mode=mode)  # type: ignore[arg-type]
            assert {hit.page for hit in hits} == {"hopper.md", "all.md"}, mode
            hits = index.query("tile", k=9, where={"toolkit": "13.0"}, mode=mode)  # type: ignore[arg-type]
            assert {hit.source for hit in hits} == {"pages"}, mode
            hits = index.query("tile", k=20, where={"toolkit": ["11.8"]}, mode=mode)  # type: ignore[arg-type]
            assert {hit.source for hit in hits} == {"pages", "old"}, mode
