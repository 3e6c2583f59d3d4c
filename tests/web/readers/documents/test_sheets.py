"""Workbooks: each cell says what its sheet shows, whatever else in the file is broken."""

import pytest

from rumi.web.readers.pages.documents.number_formats import shown
from tests.web.readers.documents.builders import chart, lines, numbers, part, read, relations, xlsx, zipped


def n(value: object, style: int = 0) -> str:
    return f"<c s='{style}'><v>{value}</v></c>"


def text(words: str, place: str = "") -> str:
    at = f" r='{place}'" if place else ""
    return f"<c{at} t='inlineStr'><is><t>{words}</t></is></c>"


def row(*cells: str, attributes: str = "") -> str:
    return f"<row {attributes}>{''.join(cells)}</row>"


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        (0.25, "0%", "25%"),
        (0.2547, "0.0%", "25.5%"),
        (0.25, "0 %", "25 %"),
        (1234.5, "#,##0.00", "1,234.50"),
        (1234567, "#,##0", "1,234,567"),
        (999.999, "#,##0.00", "1,000.00"),
        (1234.5, '#,##0.00\\ "€"', "1,234.50 €"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (1234.5, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\)', "$1,234.50"),
        (-1234.5, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\)', "$(1,234.50)"),
        (-5, "0.0", "-5.0"),
        (-5, "0;[Red]0", "5"),
        (-0.001, "0.0", "0.0"),
        (0, '0;-0;"none"', "none"),
        (7, "000", "007"),
        (5551234567, "000-000-0000", "555-123-4567"),
        (1500000, '0.0,,"M"', "1.5M"),
        (12345, "0.00E+00", "1.23E+04"),
        (0.5, "# ?/?", "1/2"),
        (2.75, "# ?/?", "2 3/4"),
        (150, '[>100]"high";[<=100]"low"', "high"),
        (3, 'General" kg"', "3 kg"),
        (0.1 + 0.2, "General", "0.3"),
        (4532012345678901, "General", "4532012345678901"),
        (3.5, "@", "3.5"),
        (46082, "dd/mm/yyyy", "01/03/2026"),
        (46082, "d. mmmm yyyy", "1. March 2026"),
        (46082, "yyyy\\-mm\\-dd;@", "2026-03-01"),
        (46082.75, "m/d/yy h:mm AM/PM", "3/1/26 6:00 PM"),
        (46082.75, "ddd hh:mm:ss", "Sun 18:00:00"),
        (1.5, "[h]:mm", "36:00"),
        (0.5 / 24, "mm:ss", "30:00"),
        (0.000011574 * 1.5, "ss.0", "01.5"),
        (61.5, "[$-F800]dddd\\,\\ mmmm\\ dd", "Thursday, March 01"),
        (-3, "yyyy", "-3"),
        (1e300, "#,##0.00", "1" + ",".join([""] + ["000"] * 100) + ".00"),
        (12, '"all text"', "all text"),
        (12, ";;;", "12"),
        (5, "0" * 5000, "5".zfill(500)),
    ],
)
def test_a_number_reads_as_its_cell_shows_it(value: float, code: str, expected: str) -> None:
    assert shown(value, code) == expected


@pytest.mark.parametrize(
    "code", ["[", '"', "\\", "0/0", "?/0", "E+", "[$", "yyyy[", ".", "%%%%", "0.0.0", ",,,", "h" * 99]
)
@pytest.mark.parametrize("value", [0.0, -1.5, 1e308, 5e-324, 46082.5])
def test_an_odd_format_hides_no_number(value: float, code: str) -> None:
    assert shown(value, code)


def test_dates_count_from_1904_where_the_workbook_says_so() -> None:
    workbook = "<workbookPr date1904='1'/>"
    assert (
        lines(xlsx({"a": row(n(0, 1))}, styles=numbers("yyyy-mm-dd"), workbook=workbook))[1]
        == "| 1904-01-01 |"
    )


@pytest.mark.parametrize("strict", [False, True], ids=["transitional", "strict"])
@pytest.mark.parametrize("prefix", ["", "x"])
def test_rows_are_read_in_all_namespaces(strict: bool, prefix: str) -> None:
    rows = f"<sheetData>{row(text('rent', 'A1'), n(500))}</sheetData>"
    if prefix:
        rows = rows.replace("</", "\0").replace("<", f"<{prefix}:").replace("\0", f"</{prefix}:")
    assert lines(xlsx({"Data": rows}, strict=strict, prefix=prefix)) == ["## Sheet Data", "| rent | 500 |"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("<c t='s'><v>1</v></c>", "shared"),
        ("<c t='s'><v>2</v></c>", "rich text"),
        ("<c t='s'><v>3</v></c>", "日本"),
        ("<c t='str'><f>A1&amp;B1</f><v>joined</v></c>", "joined"),
        ("<c t='b'><v>1</v></c>", "TRUE"),
        ("<c t='e'><v>#DIV/0!</v></c>", "#DIV/0!"),
        ("<c t='d'><v>2026-03-01T00:00:00</v></c>", "2026-03-01T00:00:00"),
        ("<c><f>SUM(B1:B9)</f><v>42</v></c>", "42"),
        ("<c><f>SUM(B1:B9)</f></c>", "=SUM(B1:B9)"),
        ("<c><f>SUM(B1:B9)</f><v></v></c>", "=SUM(B1:B9)"),
        ("<c t='inlineStr'><is><r><t>in</t></r><r><t>line</t></r></is></c>", "inline"),
        ("<c t='str'><v>a_x000D_b</v></c>", "a b"),
        ("<c><v>no number</v></c>", "no number"),
        ("<c s='99'><v>5</v></c>", "5"),
        ("<c s='x'><v>5</v></c>", "5"),
        ("<c t='new'><v>5</v></c>", "5"),
    ],
)
def test_a_cell_of_each_type(cell: str, expected: str) -> None:
    strings = [
        "first",
        "shared",
        "<r><t>rich </t></r><r><t>text</t></r>",
        "<t>日本</t><rPh sb='0' eb='2'><t>にほん</t></rPh>",
    ]
    assert lines(xlsx({"a": row(cell)}, strings=strings))[1] == f"| {expected} |"


@pytest.mark.parametrize(
    "styles",
    [
        "<fills><fill/></fills><cellXfs><xf/><xf numFmtId='9'/></cellXfs>",
        "<fonts><font><sz val='large'/></font></fonts><cellXfs><xf/><xf numFmtId='9'/></cellXfs>",
        "<borders><border><left style='wavy'/></border></borders><cellXfs><xf/><xf numFmtId='9' fillId='77'/></cellXfs>",
        "<cellStyles count='none'><cellStyle/></cellStyles><cellXfs><xf numFmtId='?'/><xf numFmtId='9'/></cellXfs>",
        "<numFmts><numFmt/><numFmt numFmtId='200'/></numFmts><cellXfs><xf/><xf numFmtId='9'/></cellXfs>",
        "<dxfs><dxf><fill><gradientFill degree='up'/></fill></dxf></dxfs><cellXfs><xf/><xf numFmtId='9'/></cellXfs>",
    ],
)
def test_a_broken_style_takes_no_row_with_it(styles: str) -> None:
    document = read(xlsx({"a": row(n(0.25, 1), text("x"))}, styles=styles))
    assert document.text == "## Sheet a\n| 25% | x |"
    assert not document.lost


@pytest.mark.parametrize(
    "extra",
    [
        "<dataValidations><dataValidation type='any' sqref='?'/></dataValidations>",
        "<autoFilter ref='A1:B'><filterColumn colId='x'><customFilters/></filterColumn></autoFilter>",
        "<conditionalFormatting sqref=''><cfRule type='odd' priority='first'/></conditionalFormatting>",
        "<pageSetup orientation='sideways' scale='9999'/>",
        "<hyperlinks><hyperlink ref='A1' r:id='r99'/></hyperlinks>",
        "<extLst><ext><broken/></ext></extLst>",
    ],
)
def test_a_broken_detail_of_a_sheet_takes_no_row_with_it(extra: str) -> None:
    sheet = (
        "<dimension ref='A1:XFD1048576'/><sheetViews><sheetView workbookViewId='x' view='3d'><pane state='odd'/>"
        f"</sheetView></sheetViews><sheetData>{row(text('kept'))}</sheetData>{extra}"
    )
    names = "<definedNames><definedName name='_xlnm.Print_Area' localSheetId='99'>#REF!</definedName></definedNames>"
    views = "<bookViews><workbookView activeTab='x' visibility='no'/></bookViews>"
    assert lines(xlsx({"a": sheet}, workbook=views + names)) == ["## Sheet a", "| kept |"]


@pytest.mark.parametrize(
    "parts",
    [
        {"xl/styles.xml": "broken"},
        {"xl/sharedStrings.xml": "<sst><si><t>a"},
        {"xl/_rels/workbook.xml.rels": "broken"},
        {"xl/workbook.xml": "<workbook/>"},
        {"xl/workbook.xml": "no XML"},
        {"xl/theme/theme1.xml": "broken", "xl/pivotCache/pivotCacheDefinition1.xml": "<broken"},
        {
            "xl/worksheets/_rels/sheet1.xml.rels": relations(
                [("comments", "../nowhere.xml"), ("drawing", "x.xml")]
            )
        },
    ],
)
def test_a_broken_part_takes_no_row_with_it(parts: dict[str, str]) -> None:
    book = xlsx({"a": row(text("kept"))}, styles=numbers("0"), strings=["a"], parts=parts)
    assert lines(book)[1:] == ["| kept |"]


def test_a_broken_sheet_is_named_and_the_others_are_read() -> None:
    whole = xlsx({"one": row(text("1")), "two": row(text("2")), "three": row(text("3"))})
    for damage in (
        "no XML",
        "<worksheet><sheetData><row><c t='inlineStr'><is><t>begun</t></is></c></row><row",
    ):
        book = zipped({**_parts(whole), "xl/worksheets/sheet2.xml": damage})
        document = read(book)
        assert [line for line in document.text.splitlines() if line in ("| 1 |", "| 3 |")] == [
            "| 1 |",
            "| 3 |",
        ]
        assert "sheet2.xml is" in document.lost


def _parts(archive: bytes) -> dict[str, str | bytes]:
    import zipfile
    from io import BytesIO

    with zipfile.ZipFile(BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_what_is_hidden_is_marked() -> None:
    sheet = (
        "<cols><col min='2' max='2' hidden='1'/><col min='4' max='6' hidden='1'/></cols><sheetData>"
        + row(text("seen"))
        + row(text("unseen"), attributes="hidden='1'")
        + "</sheetData>"
    )
    states = {"b": "hidden", "c": "veryHidden"}
    assert lines(xlsx({"a": sheet, "b": row(text("x")), "c": row(text("y"))}, states=states)) == [
        "## Sheet a",
        "(hidden columns: B, D-F)",
        "| seen |",
        "| unseen | (hidden row)",
        "## Sheet b (hidden)",
        "| x |",
        "## Sheet c (hidden)",
        "| y |",
    ]


def test_a_merged_cell_is_read_once() -> None:
    rows = "".join(f"<row r='{at}'>{text('all', f'A{at}')}{text('all', f'B{at}')}</row>" for at in (1, 2))
    sheet = f"<sheetData>{rows}<row r='3'>{text('own', 'A3')}</row></sheetData><mergeCells><mergeCell ref='A1:B2'/></mergeCells>"
    assert lines(xlsx({"a": sheet}))[1:] == ["| all |", "| own |"]


def test_cells_stand_where_their_reference_says() -> None:
    rows = (
        "<row r='5'>" + text("a", "B5") + text("b", "D5") + "</row><row>" + text("c") + text("d") + "</row>"
    )
    assert lines(xlsx({"a": rows}))[1:] == ["|  | a |  | b |", "| c | d |"]


def test_comments_texts_and_charts_beside_the_cells_are_read() -> None:
    comment = "<authors><author>Eva</author></authors><commentList><comment ref='B2' authorId='0'><text><r><t>Is this right?</t></r></text></comment></commentList>"
    drawing = (
        "<xdr:twoCellAnchor><xdr:sp><xdr:txBody><a:p><a:r><a:t>Look here</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:twoCellAnchor>"
        "<xdr:twoCellAnchor><xdr:graphicFrame><a:graphic><a:graphicData><c:chart r:id='r1'/></a:graphicData></a:graphic></xdr:graphicFrame></xdr:twoCellAnchor>"
        "<xdr:twoCellAnchor><xdr:pic><a:blip/></xdr:pic></xdr:twoCellAnchor>"
    )
    book = xlsx(
        {"a": row(text("x"))},
        parts={
            "xl/worksheets/_rels/sheet1.xml.rels": relations(
                [("comments", "../comments1.xml"), ("drawing", "../drawings/drawing1.xml")]
            ),
            "xl/comments1.xml": part("comments", comment),
            "xl/drawings/drawing1.xml": part("xdr:wsDr", drawing),
            "xl/drawings/_rels/drawing1.xml.rels": relations([("chart", "../charts/chart1.xml")]),
            "xl/charts/chart1.xml": chart("Rent", {"2026": [500]}, ["March"]),
        },
    )
    assert lines(book)[2:] == [
        "Comment on B2 (Eva): Is this right?",
        "[text box] Look here",
        "[chart] Rent",
        "|  | 2026 |",
        "| March | 500 |",
    ]
    assert read(book).lost == "not in this text: 1 picture"


def test_threaded_comments_replace_the_note_for_old_programs() -> None:
    old = "<commentList><comment ref='A1'><text><t>[Threaded comment] Your version of Excel…</t></text></comment></commentList>"
    book = xlsx(
        {"a": row(text("x"))},
        parts={
            "xl/worksheets/_rels/sheet1.xml.rels": relations(
                [("comments", "../comments1.xml"), ("threadedComment", "../threads.xml")]
            ),
            "xl/comments1.xml": part("comments", old),
            "xl/threads.xml": part(
                "ThreadedComments", "<threadedComment ref='A1'><text>Why?</text></threadedComment>"
            ),
        },
    )
    assert lines(book)[2:] == ["Comment on A1: Why?"]


def test_columns_that_nobody_looks_at_are_counted() -> None:
    document = read(xlsx({"a": row(text("near", "A1"), text("far", "XFD1"))}))
    assert document.text.splitlines()[1:] == ["| near |"]
    assert document.lost == "not in this text: 1 cell right of column GR"


def test_a_workbook_in_the_xml_of_excel_2003_is_read() -> None:
    cells = "<Cell><Data ss:Type='String'>rent</Data></Cell><Cell ss:Index='3'><Data>500</Data></Cell>"
    book = (
        '<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?><Workbook xmlns="urn:schemas-microsoft-com:office:'
        'spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"><Worksheet ss:Name="S"><Table><Row>'
        f"{cells}</Row></Table></Worksheet></Workbook>"
    )
    assert lines(book.encode(), "export.xls") == ["## Sheet S", "| rent |  | 500 |"]
