"""From bytes to characters."""

import codecs
import subprocess
import sys

import pytest

from rumi.platform.text_decoding import codec_of, decode, encoding_of, wide_codec

TEXTS = {
    "cp1252": "El pingüino comió piñas y cigüeñas – «todo» por 5 € en la plaza de la Constitución de Cádiz.",
    "cp932": "東京の天気は晴れです。明日は雨が降るかもしれませんので、傘をお持ちください。",
    "gb18030": "今天天气很好，我们去公园散步，看到了很多花和树木，还有一些小鸟在唱歌。",
    "koi8-r": "Вчера вечером мы долго гуляли по набережной и говорили о погоде и о книгах.",
    "cp1251": "Вчера вечером мы долго гуляли по набережной и говорили о погоде и о книгах.",
    "big5hkscs": "今天天氣很好，我們去公園散步，看到了很多花和樹木，還有一些小鳥在唱歌。",
    "cp949": "오늘은 날씨가 아주 좋아서 공원에서 산책을 하고 책을 읽었습니다.",
    "euc_jp": "東京の天気は晴れです。明日は雨が降るかもしれませんので、傘をお持ちください。",
    "iso2022_jp": "東京の天気は晴れです。明日は雨が降るかもしれません。",
    "iso2022_kr": "오늘은 날씨가 아주 좋아서 공원에서 산책을 하고 책을 읽었습니다.",
    "utf-16-le": "Zażółć gęślą jaźń, and more words.",
    "utf-16-be": "Zażółć gęślą jaźń, and more words.",
    "utf-8": "Zażółć gęślą jaźń — 東京",
}
LABELS = [
    ("cp1252", "windows-1252"),
    ("cp1252", "ISO-8859-1"),
    ("cp1252", '"latin1"'),
    ("cp1252", "x-user-defined"),
    ("cp932", "Shift_JIS"),
    ("gb18030", "gb2312"),
    ("gb18030", "GBK"),
    ("koi8-r", "koi8-r"),
    ("cp1251", "windows-1251"),
    ("big5hkscs", "Big5"),
    ("cp949", "euc-kr"),
    ("euc_jp", "EUC-JP"),
    ("iso2022_jp", "iso-2022-jp"),
    ("iso2022_kr", "iso-2022-kr"),
    ("utf-16-le", "utf-16"),
    ("utf-16-be", "utf-16be"),
    ("utf-8", "UTF-8"),
]
# Sentences of 18 languages, with the encodings in which files without a label come.
LANGUAGES = {
    "ar": ("غدا صباحا سيأتي الفني ويصلح السخان في المطبخ.", ["cp1256", "iso8859-6"]),
    "bg": ("Утре сутринта ще дойде майсторът и ще поправи котела.", ["cp1251"]),
    "cs": ("Zítra ráno přijde řemeslník a opraví kotel v koupelně, žádný problém.", ["cp1250", "iso8859-2"]),
    "de": ("Morgen früh kommt der Monteur und prüft die Heizung für 80 €.", ["cp1252"]),
    "el": ("Αύριο το πρωί θα έρθει ο τεχνίτης και θα φτιάξει τον λέβητα.", ["cp1253", "iso8859-7"]),
    "es": ("Mañana por la mañana vendrá el técnico y arreglará la caldera.", ["cp1252"]),
    "fr": ("Le technicien passera demain matin réparer la chaudière à 80 €.", ["cp1252"]),
    "he": ("מחר בבוקר יבוא הטכנאי ויתקן את הדוד במטבח.", ["cp1255"]),
    "hu": ("Holnap reggel jön a szerelő, és megjavítja a kazánt, örülünk.", ["cp1250"]),
    "ja": ("明日の朝、修理の人が来て台所の給湯器を直します。", ["cp932", "euc_jp", "iso2022_jp"]),
    "ko": ("내일 아침에 기사님이 와서 부엌의 보일러를 고칠 것입니다.", ["cp949"]),
    "pl": (
        "Jutro rano przyjdzie fachowiec i naprawi kocioł w łazience, żeby grzał.",
        ["cp1250", "iso8859-2"],
    ),
    "pt": ("Amanhã de manhã virá o técnico; não há água na cozinha.", ["cp1252"]),
    "ru": (
        "Завтра утром придёт мастер и починит котёл на кухне.",
        ["cp1251", "koi8-r", "cp866", "iso8859-5"],
    ),
    "th": ("พรุ่งนี้เช้าช่างจะมาซ่อมเครื่องทำน้ำอุ่นในครัว", ["cp874"]),
    "tr": ("Yarın sabah usta gelecek ve mutfaktaki ısıtıcıyı düzeltecek, çok şükür.", ["cp1254"]),
    "uk": ("Завтра вранці прийде майстер і полагодить котел на кухні.", ["cp1251"]),
    "zh": ("明天早上师傅会来修理厨房里的热水器，费用是八十元。", ["gb18030"]),
    "zh-tw": ("明天早上師傅會來修理廚房裡的熱水器，費用是八十元。", ["big5hkscs"]),
}
UNLABELLED = [(language, codec) for language, (_, known) in LANGUAGES.items() for codec in known]


@pytest.mark.parametrize(("codec", "label"), LABELS)
def test_the_label_of_the_server_is_read_as_the_web_means_it(codec: str, label: str) -> None:
    assert decode(TEXTS[codec].encode(codec), label) == TEXTS[codec]


@pytest.mark.parametrize(("codec", "label"), [pair for pair in LABELS if "utf-16" not in pair[0]])
def test_a_page_says_it_itself(codec: str, label: str) -> None:
    label = label.strip('"')
    for head in (
        f'<html><meta charset="{label}"><p>',
        f"<html><META http-equiv=Content-Type content='text/html; charset={label}'><p>",
        f'<?xml version="1.0" encoding="{label}"?><p>',
    ):
        body = head.encode() + TEXTS[codec].encode(codec)
        assert decode(body, markup="html") == head + TEXTS[codec]


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_mark_wins_over_every_label(mark: bytes, codec: str) -> None:
    assert decode(mark + TEXTS["utf-8"].encode(codec), "koi8-r") == TEXTS["utf-8"]


def test_the_server_wins_over_the_page() -> None:
    body = b"<meta charset=windows-1251>" + TEXTS["koi8-r"].encode("koi8-r")
    assert TEXTS["koi8-r"] in decode(body, "koi8-r", markup="html")


@pytest.mark.parametrize("label", ["made-up", "utf-7", "replacement", "none", ""])
def test_an_unknown_label_counts_as_none(label: str) -> None:
    assert decode(TEXTS["utf-8"].encode(), label) == TEXTS["utf-8"]


@pytest.mark.parametrize("codec", ["cp1252", "cp932", "gb18030", "koi8-r", "cp1251", "cp949"])
def test_a_declared_label_is_final(codec: str) -> None:
    body = TEXTS[codec].encode(codec)
    assert decode(body, "utf-8") == body.decode("utf-8", "replace")
    assert decode(TEXTS["utf-8"].encode(), "windows-1252").startswith("Za\u017c"[:2])
    assert "\ufffd" not in decode(TEXTS["utf-8"].encode(), "iso-8859-5")


def broken(text: bytes) -> dict[str, bytes]:
    """Ten ways in which one byte of a UTF-8 text comes to harm, in the middle and at the ends."""
    middle = next(at for at in range(len(text) // 2, len(text)) if text[at] > 127)
    return {
        "ff between": text[:middle] + b"\xff" + text[middle:],
        "80 at the beginning": b"\x80" + text,
        "c0 at the end": text + b"\xc0",
        "nul instead": text[:middle] + b"\0" + text[middle + 1 :],
        "letter instead": text[:middle] + b"A" + text[middle + 1 :],
        "lost": text[:middle] + text[middle + 1 :],
        "a latin-1 letter": text[:middle] + b"\xe9" + text[middle:],
        "cut": text + "é".encode()[:1],
        "a surrogate": text[:middle] + b"\xed\xa0\x80" + text[middle:],
        "too long": text + b"\xf5\x80\x80\x80",
    }


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("times", [1, 40])
def test_one_broken_byte_costs_a_utf8_page_no_other_text(language: str, times: int) -> None:
    before, after = LANGUAGES[language][0], "Über 80 € – naïve."
    for kind, text in broken(before.encode()).items():
        for label, head in (("utf-8", ""), ("", "<meta charset=utf-8>"), ("", "")):
            body = f"{head}<p>{before}</p>".encode() * times + text + f"<p>{after}</p>".encode()
            found = decode(body, label, markup="html")
            assert found.count(before) >= times, (kind, label, head)
            assert after in found, (kind, label, head)
            assert found.count("\ufffd") <= 6, (kind, label, head)


@pytest.mark.parametrize("found", ["“one quotation”", "it’s", "naïve café", "5 €", "déjà vu"])
def test_a_broken_byte_among_few_letters_beyond_ascii_leaves_utf8(found: str) -> None:
    body = f"Plain words, {found}, and more plain words ".encode() + b"\x93 until the end."
    assert found in decode(body)


@pytest.mark.parametrize(("language", "codec"), UNLABELLED)
def test_text_without_a_label_is_detected(language: str, codec: str) -> None:
    text = LANGUAGES[language][0].replace("€", "EUR" if codec == "iso8859-7" else "€")
    body = text.encode(codec)
    assert decode(body) == text
    page = f"<html><head><title>{text}</title></head><body class=b><p>{text}</p></body></html>"
    assert decode(page.encode(codec), markup="html") == page
    lines = "\n".join([text] * 20)
    assert decode(lines.encode(codec)) == lines


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1251", "Имя;Цена\nСтол;1200\nСтул;300\n"),
        ("cp1251", "Вид;Цена\nОвёс;12000\n"),
        ("cp1252", "Piñón y jamón, 5 €"),
        ("cp1252", "Größe;Preis\nGroß;12\nKühl;3\n"),
        ("cp1252", "Déjà vu"),
        ("cp1252", "It’s “fine” – ok"),
        ("cp1252", "São Paulo"),
        ("cp1252", "Mañana\nvendrá\ntécnico"),
        ("cp1250", "Cena: 80 złotych za łóżko"),
        ("cp1254", "Günaydın dünya, çok güzel"),
        ("cp932", "価格は千円です"),
        ("cp932", "テスト"),
        ("big5hkscs", "你好，世界"),
        ("gb18030", "价格：八十元"),
        ("cp949", "가격: 팔만 원"),
        ("cp1253", "Τιμή: 80"),
        ("cp1255", "מחיר: 80"),
    ],
)
def test_a_short_text_without_a_label_is_detected(codec: str, text: str) -> None:
    assert decode(text.encode(codec)) == text


@pytest.mark.parametrize(("language", "codec"), [pair for pair in UNLABELLED if pair[1] != "iso2022_jp"])
def test_a_broken_byte_leaves_the_detection_of_the_rest(language: str, codec: str) -> None:
    text = LANGUAGES[language][0].replace("€", "EUR")
    body = "\n".join([text] * 4).encode(codec) + b"\n\x81\xff\n" + "\n".join([text] * 4).encode(codec)
    assert decode(body).count(text) >= 7


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_wide_text_without_a_mark_is_seen(language: str, codec: str) -> None:
    text = f"1; {LANGUAGES[language][0]}\r\n2; x\r\n"
    assert decode(text.encode(codec)) == text
    assert decode(text.encode(codec)[:-1]).startswith(text[:-2])


@pytest.mark.parametrize(
    "body",
    [
        b"plain words with a stray \0 in the middle of them",
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
        b"\x7fELF\2\1\1\0" + bytes(64) + bytes(range(200)) * 4,
        b"\x01\x02\x03",
        "日本語\n\x01日本語".encode("cp932"),
        b"",
    ],
)
def test_what_has_control_characters_is_not_utf16_for_that(body: bytes) -> None:
    assert wide_codec(body) is None


def test_a_page_that_was_cut_in_the_midst_of_a_character_is_read_to_there() -> None:
    assert decode(TEXTS["utf-8"].encode()[:-1], "").startswith(TEXTS["utf-8"][:-1])
    assert decode(TEXTS["cp932"].encode("cp932")[:-1], "shift_jis").startswith(TEXTS["cp932"][:-1])
    assert decode(TEXTS["cp932"].encode("cp932")[:-1]).startswith(TEXTS["cp932"][:-1])


def test_a_page_that_says_utf16_in_ascii_is_none() -> None:
    assert decode(b"<meta charset=utf-16><p>caf\xc3\xa9", markup="html").endswith("<p>café")


WORDS = "наша страница"


@pytest.mark.parametrize(
    "head",
    [
        "<!-- <meta charset=koi8-r> --><meta charset=windows-1251>",
        "<!-- <b>old</b> <meta charset=koi8-r> --><meta charset=windows-1251>",
        "<!-- <meta charset=koi8-r>\n--><meta http-equiv=content-type content='text/html;charset=cp1251'>",
        "<!--><meta charset=cp1251>--><meta charset=koi8-r>",
        "<a title='<meta charset=koi8-r>'><meta charset=cp1251>",
        "<metadata charset=koi8-r><meta charset=cp1251>",
        "<!DOCTYPE meta charset=koi8-r><meta charset=cp1251>",
        "<?meta charset=koi8-r?><meta charset=cp1251>",
        "<meta name=description content='text/html; charset=koi8-r'><meta charset=cp1251>",
        "<meta charset=made-up><meta charset=cp1251>",
        "<meta/charset=cp1251>",
        "<META\nCHARSET = 'Windows-1251' >",
        "<meta content='text/html; charset=\"windows-1251\"' http-equiv='Content-Type' />",
        "<script>var page = 1 < 2;</script><meta charset=cp1251>",
        f"<style>{'a{color:red}' * 1000}</style><meta charset=cp1251>",
    ],
)
def test_a_meta_element_declares_as_the_standard_scans_for_it(head: str) -> None:
    assert decode(head.encode() + WORDS.encode("cp1251"), markup="html") == head + WORDS


def test_the_declaration_of_xml_wins_in_xml_only() -> None:
    head = '<?xml version="1.0" encoding="koi8-r"?><meta charset="cp1251"/>'
    assert decode(head.encode() + WORDS.encode("koi8-r"), markup="xml") == head + WORDS
    assert decode(head.encode() + WORDS.encode("cp1251"), markup="html") == head + WORDS


@pytest.mark.parametrize(
    ("label", "body", "text"),
    [
        ("gbk", b"5 \x80", "5 €"),
        ("euc-jp", b"\xad\xa1\xad\xea", "①㈱"),
        ("shift_jis", b"\x87\x40\x87\x8a", "①㈱"),
        ("euc-kr", b"\x8c\x63", "똠"),
        ("iso-8859-9", b"\x80", "€"),
        ("iso-2022-jp", b"\x1b(I\x31\x32", "ｱｲ"),
    ],
)
def test_characters_that_vendors_added_are_read(label: str, body: bytes, text: str) -> None:
    assert decode(body, label) == text


@pytest.mark.parametrize(
    ("label", "body", "text"),
    [
        ("shift_jis", b"\x93\xfa<\x81<b>\x96\x7b", "日<\ufffd<b>本"),
        ("euc-jp", b"a\xff\xc6\xfc", "a\ufffd日"),
        ("big5", b"\xa4\xe9\xff\xa5\xbb", "日\ufffd本"),
        ("utf-16le", b"a\0b\0c", "ab\ufffd"),
        ("utf-8", b"\xe2\x82A\xf0\x9f\x92", "\ufffdA\ufffd"),
        ("windows-1253", b"\xe1\xd2\xe2", "α\ufffdβ"),
    ],
)
def test_broken_bytes_under_a_label_become_replacement_characters(label: str, body: bytes, text: str) -> None:
    assert decode(body, label) == text


@pytest.mark.parametrize(
    "label", ["zip", "utf-7", "unicode_escape", "idna", "base64", "rot13", "utf-32", "x" * 999]
)
def test_a_label_that_the_web_does_not_know_is_none(label: str) -> None:
    assert codec_of(label) is None


def test_every_codec_exists() -> None:
    for label in (
        "utf8",
        "latin1",
        "x-sjis",
        "gbk",
        "koi8-u",
        "macintosh",
        "iso-8859-8-i",
        "tis-620",
        "ibm866",
    ):
        assert codecs.lookup(codec_of(label) or "")


@pytest.mark.parametrize(
    "piece",
    [
        b"<",
        b"<a ",
        b"<meta ",
        b"<!--",
        b"<meta charset",
        b"\xe9",
        b"\xe9 ",
        b"<\xe9",
        b"a=' ",
        b"/ ",
        b"\xd2\xd3",
    ],
)
def test_a_page_made_to_take_long_is_decoded(piece: bytes) -> None:
    body = (piece * 1_000_000)[:1_000_000]
    assert decode(body, markup="html")
    assert encoding_of(body)


def test_nothing_is_imported_or_opened_after_loading() -> None:
    """A confined process can open no file: all models must be in memory by then."""
    program = """
import sys
from rumi.platform import text_decoding
from tests.platform.test_text_decoding import LANGUAGES, TEXTS, UNLABELLED, decode
text_decoding.load()
opened = []
sys.addaudithook(lambda event, about: opened.append(about) if event in ("open", "import") else None)
for language, codec in UNLABELLED:
    decode((LANGUAGES[language][0].replace("€", "") + "\\n").encode(codec) * 9)
for codec, text in TEXTS.items():
    decode(text.encode(codec))
assert not opened, opened
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp932", "会議は火曜日に延期されました。"),
        ("euc_jp", "書類とパスポートをお持ちください。"),
        ("gb18030", "会议推迟到星期二。请携带文件和护照。"),
        ("gb18030", "王伟住在北京"),
        ("big5hkscs", "會議延期到星期二。請攜帶文件和護照。"),
        ("cp949", "회의가 화요일로 연기되었습니다."),
        ("cp1252", "Grüße aus München. Die Straße ist gesperrt; das Menü kostet 80 €."),
        ("cp1250", "Zażółć gęślą jaźń. Książka kosztuje pięćdziesiąt złotych."),
        ("cp1253", "Η συνάντηση μεταφέρθηκε για την Τρίτη."),
        ("cp1255", "הפגישה נדחתה ליום שלישי."),
        ("cp874", "การประชุมเลื่อนไปเป็นวันอังคาร"),
    ],
)
@pytest.mark.parametrize("byte", [b"\x81", b"\xa0", b"\xc3", b"\xff"])
def test_a_broken_byte_beside_a_short_text_does_not_change_its_encoding(
    codec: str, text: str, byte: bytes
) -> None:
    body = b"<p>" + text.encode(codec) + b"</p><p>caf" + byte + b" x</p>"
    assert f"<p>{text}</p>" in decode(body, markup="html")


@pytest.mark.parametrize("codec", ["cp932", "gb18030", "big5hkscs", "cp949"])
def test_a_broken_byte_in_a_line_costs_no_other_character(codec: str) -> None:
    before, after = TEXTS[codec][:20], TEXTS[codec][20:]
    text = decode(before.encode(codec) + b"\xff" + after.encode(codec))
    assert text.startswith(before)
    assert text.endswith(after[2:])


@pytest.mark.parametrize("text", ["Größe;10 €\n", "Grüße", "Füße und Größe", "außen süß"])
def test_a_short_german_text_is_no_cyrillic(text: str) -> None:
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize("byte", [b"\xa0", b"\xfd", b"\xfe", b"\xff"])
def test_bytes_that_shift_jis_lacks_become_replacement_characters(byte: bytes) -> None:
    assert decode("天気".encode("cp932") + byte + b" x", "Shift_JIS") == "天気\ufffd x"


@pytest.mark.parametrize(
    "before",
    [
        "<script>var a = '<meta charset=koi8-r>'</script>",
        "<title>How to write <meta charset=koi8-r></title>",
        "<style>/* <meta charset=koi8-r> */</style>",
        "<script src=a>/* <meta charset=koi8-r> */</SCRIPT ><textarea><meta charset=koi8-r></textarea>",
        "<script>" * 10_000,
    ],
)
def test_an_encoding_named_in_a_script_or_a_title_does_not_count(before: str) -> None:
    page = f"{before}<meta charset=utf-8><p>für 80 €"
    assert decode(page.encode(), markup="html") == page


@pytest.mark.parametrize("letters", ["für 80 €", "día", "Žluťoučký kůň"])
def test_a_pair_of_surrogates_leaves_utf8(letters: str) -> None:
    text = decode(f"{letters} ".encode() + "\ud83d\ude00".encode("utf-8", "surrogatepass") + b" and more")
    assert text.startswith(f"{letters} \ufffd")
    assert text.endswith(" and more")
