"""OpenDocument texts, sheets and slides."""

import pytest

from tests.web.readers.documents.builders import OPEN, lines, open_document, read, zipped


def paragraph(inner: str) -> str:
    return f"<text:p>{inner}</text:p>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (paragraph("a<text:s text:c='3'/>b<text:tab/>c<text:line-break/>d"), ["a   b\tc", "d"]),
        (
            paragraph("some <text:span>styled <text:span>words</text:span></text:span> here"),
            ["some styled words here"],
        ),
        (
            paragraph("<text:a xlink:href='https://a.example/x'>the shop</text:a>"),
            ["[the shop](https://a.example/x)"],
        ),
        (
            paragraph("on <text:date>6 March</text:date>, page <text:page-number>2</text:page-number>"),
            ["on 6 March, page 2"],
        ),
        ("<text:list><text:list-item>" + paragraph("item") + "</text:list-item></text:list>", ["item"]),
        ("<text:section><text:section>" + paragraph("deep") + "</text:section></text:section>", ["deep"]),
        (
            paragraph(
                "x<text:note><text:note-citation>1</text:note-citation><text:note-body>"
                + paragraph("noted")
                + "</text:note-body></text:note>"
            ),
            ["x[^1]", "[^1]: noted"],
        ),
        (
            paragraph(
                "y<office:annotation><dc:creator>Eva</dc:creator>"
                + paragraph("Really?")
                + "</office:annotation>"
            ),
            ["y[comment 1]", "[comment 1] Eva: Really?"],
        ),
        (
            paragraph("z<draw:frame><draw:text-box>" + paragraph("boxed") + "</draw:text-box></draw:frame>"),
            ["z", "[text box] boxed"],
        ),
        (paragraph("<draw:custom-shape>" + paragraph("in a shape") + "</draw:custom-shape>"), ["in a shape"]),
        (
            "<text:tracked-changes><text:changed-region><text:deletion>"
            + paragraph("gone")
            + "</text:deletion></text:changed-region>"
            "</text:tracked-changes>" + paragraph("<text:change-start/>new<text:change-end/> text"),
            ["new text"],
        ),
        (
            "<office:forms><form:form><form:text form:name='city' form:current-value='Lugo'/></form:form></office:forms>",
            ["[form field] city: Lugo"],
        ),
        (
            "<table:table><table:table-header-rows><table:table-row><table:table-cell>"
            + paragraph("a")
            + "</table:table-cell>"
            "<table:covered-table-cell/></table:table-row></table:table-header-rows></table:table>",
            ["| a |  |"],
        ),
    ],
)
@pytest.mark.parametrize("template", [False, True])
def test_a_word_is_kept_wherever_it_stands(body: str, expected: list[str], template: bool) -> None:
    assert lines(open_document("text", body, template=template)) == expected


def test_headers_and_footers_are_read() -> None:
    styles = (
        f"<office:document-styles {OPEN}><office:master-styles><style:master-page><style:header>{paragraph('Letterhead')}"
        f"</style:header><style:footer>{paragraph('Small print')}</style:footer></style:master-page></office:master-styles>"
        "</office:document-styles>"
    )
    body = open_document("text", paragraph("text"), {"styles.xml": styles})
    assert lines(body) == ["Header: Letterhead", "text", "Footer: Small print"]


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        (paragraph("a<draw:frame><draw:image/></draw:frame>"), "1 picture"),
        (paragraph("a<draw:frame><draw:object xlink:href='./Object 1'/></draw:frame>"), "1 embedded object"),
        (
            "<text:tracked-changes><text:changed-region><text:deletion/></text:changed-region></text:tracked-changes>"
            + paragraph("a"),
            "1 tracked deletion",
        ),
    ],
)
def test_what_is_not_in_the_text_is_counted(body: str, lost: str) -> None:
    document = read(open_document("text", body))
    assert (document.text.strip(), document.lost) == ("a", f"not in this text: {lost}")


def cell(text: str = "", attributes: str = "", inner: str = "") -> str:
    return f"<table:table-cell {attributes}>{inner}{paragraph(text) if text else ''}</table:table-cell>"


def test_a_sheet_reads_as_it_is_shown() -> None:
    styles = "<style:style style:name='off'><style:table-properties table:display='false'/></style:style>"
    note = "<office:annotation>" + paragraph("why?") + "</office:annotation>"
    far = "table:number-columns-repeated='16384'"
    row = "<table:table-row {}>{}</table:table-row>".format
    body = (
        "<table:table table:name='Data'><table:table-column/><table:table-column table:visibility='collapse'/>"
        + row("", cell("25%", "office:value='0.25'") + cell("1,5 €") + cell("", far))
        + row("table:visibility='collapse'", cell("unseen"))
        + row("", cell("", "office:value='7'") + cell("", "table:formula='of:=A1+1'"))
        + row("", cell("x", "", note))
        + row("table:number-rows-repeated='1048000'", cell("", far))
        + "</table:table><table:table table:name='Off' table:style-name='off'>"
        + row("", cell("y"))
        + "</table:table>"
    )
    assert lines(open_document("spreadsheet", body, styles=styles)) == [
        "## Sheet Data",
        "(hidden columns: B)",
        "| 25% | 1,5 € |",
        "| unseen | (hidden row)",
        "| 7 | =A1+1 |",
        "| x |",
        "Comment on A4: why?",
        "## Sheet Off (hidden)",
        "| y |",
    ]


def test_slides_have_numbers_notes_and_marks() -> None:
    styles = "<style:style style:name='off'><style:drawing-page-properties presentation:visibility='hidden'/></style:style>"
    frame = "<draw:frame><draw:text-box>" + paragraph("{}") + "</draw:text-box></draw:frame>"
    body = (
        "<draw:page>"
        + frame.format("one")
        + "<presentation:notes>"
        + frame.format("say it")
        + "</presentation:notes></draw:page>"
        "<draw:page draw:style-name='off'><draw:g>" + frame.format("two") + "</draw:g></draw:page>"
    )
    shown = lines(open_document("presentation", body, styles=styles))
    assert shown == ["## Slide 1", "one", "Notes: say it", "## Slide 2 (hidden)", "two"]


def test_the_values_of_a_chart_are_read() -> None:
    chart = (
        f"<office:document-content {OPEN}><office:body><office:chart><chart:chart><chart:title>{paragraph('Sales')}</chart:title>"
        f"<table:table><table:table-row>{cell('north')}{cell('3')}</table:table-row></table:table></chart:chart></office:chart>"
        "</office:body></office:document-content>"
    )
    body = paragraph("<draw:frame><draw:object xlink:href='./Object 1'/><draw:image/></draw:frame>")
    assert lines(open_document("text", body, {"Object 1/content.xml": chart})) == [
        "[chart] Sales",
        "| north | 3 |",
    ]


def test_a_flat_file_and_one_without_a_mimetype_are_read() -> None:
    flat = f'<?xml version="1.0"?><office:document {OPEN}><office:body><office:text>{paragraph("words")}</office:text></office:body></office:document>'
    assert read(flat.encode(), "a.fodt").text == "words"
    content = f"<office:document-content {OPEN}><office:body><office:text>{paragraph('words')}</office:text></office:body></office:document-content>"
    assert read(zipped({"content.xml": content})).text == "words"
    assert read(zipped({"content.xml": content, "styles.xml": "broken"})).text == "words"
