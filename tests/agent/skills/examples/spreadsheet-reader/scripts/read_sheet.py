"""Print the first sheet of a workbook as CSV."""

import csv
import sys
import zipfile
from xml.etree import ElementTree

SPACE = {"x": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}

with zipfile.ZipFile(sys.argv[1]) as book:
    strings = []
    if "xl/sharedStrings.xml" in book.namelist():
        root = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
        strings = ["".join(item.itertext()) for item in root.findall("x:si", SPACE)]
    sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))

out = csv.writer(sys.stdout, lineterminator="\n")
for row in sheet.iterfind(".//x:row", SPACE):
    values = []
    for cell in row.findall("x:c", SPACE):
        value = cell.findtext("x:v", "", SPACE)
        values.append(strings[int(value)] if cell.get("t") == "s" else value)
    out.writerow(values)
