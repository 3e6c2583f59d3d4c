"""Presentations: each text of a slide, its notes and comments, and what it draws."""

import pytest

from tests.web.readers.documents.builders import chart, lines, part, pptx, read, relations, shape, zipped

FRAME = "<p:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"


def cell(text: str, attributes: str = "") -> str:
    return f"<a:tc {attributes}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (shape("one", "two"), ["one", "two"]),
        (f"<p:grpSp><p:grpSpPr/>{shape('a')}<p:grpSp>{shape('b')}</p:grpSp></p:grpSp>", ["a", "b"]),
        ("<p:cxnSp><p:txBody><a:p><a:r><a:t>on a line</a:t></a:r></a:p></p:txBody></p:cxnSp>", ["on a line"]),
        (
            "<p:sp><p:txBody><a:p><a:r><a:t>a</a:t></a:r><a:br/><a:fld><a:t>7</a:t></a:fld></a:p></p:txBody></p:sp>",
            ["a", "7"],
        ),
        (
            f"<mc:AlternateContent><mc:Choice Requires='x'>{shape('new')}</mc:Choice><mc:Fallback>{shape('old')}</mc:Fallback></mc:AlternateContent>",
            ["new"],
        ),
        (
            FRAME.format(
                "<a:tbl><a:tr>"
                + cell("wide", "gridSpan='2'")
                + cell("wide", "hMerge='1'")
                + "</a:tr><a:tr>"
                + cell("a")
                + cell("b", "vMerge='1'")
                + "</a:tr></a:tbl>"
            ),
            ["| wide |  |", "| a |  |"],
        ),
        ("<p:pic><p:nvPicPr><p:cNvPr descr='A map'/></p:nvPicPr><a:blip/></p:pic>", ["[picture: A map]"]),
        ("<p:unknown><p:wrapper>" + shape("kept") + "</p:wrapper></p:unknown>", ["kept"]),
    ],
)
def test_a_text_is_kept_wherever_it_stands(shapes: str, expected: list[str]) -> None:
    assert lines(pptx([shapes])) == ["## Slide 1", *expected]


def test_charts_diagrams_notes_and_comments_are_read() -> None:
    notes = "<p:sp><p:nvSpPr><p:nvPr><p:ph type='{}'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody></p:sp>"
    document = pptx(
        [FRAME.format("<c:chart r:id='r1'/>") + FRAME.format("<dgm:relIds r:dm='r2'/>"), shape("last")],
        {
            "ppt/charts/chart1.xml": chart("Growth", {"A": [3]}, ["Q1"]),
            "ppt/diagrams/data1.xml": part(
                "dgm:dataModel",
                "<dgm:ptLst><dgm:pt><dgm:t><a:p><a:r><a:t>Step</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst>",
            ),
            "ppt/notesSlides/notes1.xml": part(
                "p:notes", notes.format("sldNum", "1") + notes.format("body", "Say hello")
            ),
            "ppt/comments/c1.xml": part("p:cmLst", "<p:cm authorId='0'><p:text>Too long?</p:text></p:cm>"),
            "ppt/comments/c2.xml": part(
                "p:cmLst", "<p:cm><p:txBody><a:p><a:r><a:t>Modern</a:t></a:r></a:p></p:txBody></p:cm>"
            ),
        },
        related=[
            ("chart", "../charts/chart1.xml"),
            ("diagramData", "../diagrams/data1.xml"),
            ("notesSlide", "../notesSlides/notes1.xml"),
            ("comments", "../comments/c1.xml"),
            ("comments", "../comments/c2.xml"),
        ],
    )
    assert lines(document) == [
        "## Slide 1",
        "[chart] Growth",
        "|  | A |",
        "| Q1 | 3 |",
        "[diagram]",
        "- Step",
        "Notes: Say hello",
        "Comment: Too long?",
        "Comment: Modern",
        "## Slide 2",
        "last",
    ]


def test_a_hidden_slide_is_marked() -> None:
    assert lines(pptx([shape("x")], show="0")) == ["## Slide 1 (hidden)", "x"]


@pytest.mark.parametrize(
    ("shapes", "lost"),
    [
        ("<p:pic><a:blip/></p:pic>", "1 picture"),
        (FRAME.format("<c:chart r:id='r9'/>"), "1 chart"),
        (FRAME.format("<dgm:relIds r:dm='r9'/>"), "1 diagram"),
        (FRAME.format("<p:oleObj/>") * 2, "2 embedded objects"),
    ],
)
def test_what_is_not_in_the_text_is_counted(shapes: str, lost: str) -> None:
    assert read(pptx([shapes])).lost == f"not in this text: {lost}"


@pytest.mark.parametrize(
    "parts",
    [
        {"ppt/presentation.xml": "<presentation/>"},
        {"ppt/presentation.xml": "broken"},
        {"ppt/_rels/presentation.xml.rels": "broken"},
        {"ppt/slides/_rels/slide1.xml.rels": "broken"},
        {"ppt/slides/_rels/slide1.xml.rels": relations([("notesSlide", "../nowhere.xml")])},
    ],
)
def test_a_broken_part_takes_no_slide_with_it(parts: dict[str, str]) -> None:
    assert lines(pptx([shape("kept")], parts)) == ["## Slide 1", "kept"]


def test_a_broken_slide_is_named_and_the_others_are_read() -> None:
    document = read(pptx([shape("one"), shape("two")], {"ppt/slides/slide1.xml": "no XML"}))
    assert document.text.splitlines() == ["## Slide 1", "## Slide 2", "two"]
    assert "slide1.xml is broken" in document.lost


def test_slides_come_in_the_order_of_the_show() -> None:
    names = {
        f"ppt/slides/slide{n}.xml": part("p:sld", f"<p:cSld><p:spTree>{shape(str(n))}</p:spTree></p:cSld>")
        for n in (1, 2, 10)
    }
    assert [line for line in lines(zipped(names)) if "#" not in line] == ["1", "2", "10"]
