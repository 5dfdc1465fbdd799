"""The pictures are up to date with the texts that describe them, and the pages show the pictures."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from docs.pictures import figures
from docs.pictures.draw import FOLDER, PictureError, main, read, render
from tests.docs.pages import PAGES, links

SIZE = "picture 400 x 300: a title\n"
TWO = f"{SIZE}box a 10 10 100 50: A\nbox b 250 10 100 50: B\n"
SOURCES = sorted(FOLDER.glob("*.txt"))


def drawn(text: str, shape: str) -> list[ET.Element]:
    """Draw the picture that *text* describes, and return the SVG elements that are called *shape*."""
    return ET.fromstring(render(read(text))).findall(f"{{*}}{shape}")


def test_every_picture_of_the_docs_is_up_to_date_with_the_text_that_describes_it() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == {path.stem for path in SOURCES} | {figures.TARGET.stem}
    assert main(["--check"]) == 0


def test_every_picture_of_the_docs_is_on_a_page() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page.read_text())}
    assert {path.with_suffix(".svg") for path in (*SOURCES, figures.TARGET)} - shown == set()


def test_the_program_that_draws_pictures_needs_no_package() -> None:
    command = [sys.executable, "-S", str(FOLDER / "draw.py"), "--check"]
    assert subprocess.run(command, timeout=30, check=True, capture_output=True).stdout == b""


@pytest.mark.parametrize(
    ("arrow", "path"),
    [
        ("a -> b", "M110 35 250 35"),
        ("b -> a", "M250 35 110 35"),
        ("a -> c", "M60 60 60 200"),
        ("c -> a", "M60 200 60 60"),
        ("a.bottom+20 -> c.top+20", "M80 60 80 200"),
        ("c.right -> b.bottom", "M110 225 300 225 300 60"),
        ("b.bottom-10 -> c.right", "M290 60 290 225 110 225"),
        ("a.right+10 -> b.left-10", "M110 45 180 45 180 25 250 25"),
        ("a.bottom+10 -> c.top-10", "M70 60 70 130 50 130 50 200"),
    ],
)
def test_an_arrow_in_a_picture_runs_from_a_side_of_one_box_to_a_side_of_another(arrow: str, path: str) -> None:
    assert drawn(f"{TWO}box c 10 200 100 50: C\narrow {arrow}\n", "path")[0].attrib["d"] == path


@pytest.mark.parametrize(
    ("arrow", "place"),
    [
        ("a -> b: to", ("180", "28", "middle")),
        ("a -> b below: to", ("180", "51", "middle")),
        ("a -> c: to", ("66", "134.5", "start")),
        ("a -> c left: to", ("54", "134.5", "end")),
    ],
)
def test_the_label_of_an_arrow_in_a_picture_stands_beside_the_line_of_the_arrow(
    arrow: str, place: tuple[str, str, str]
) -> None:
    texts = drawn(f"{TWO}box c 10 200 100 50: C\ndashed {arrow}\n", "text")
    (label,) = (text for text in texts if text.text == "to")
    assert (label.attrib["x"], label.attrib["y"], label.attrib["text-anchor"]) == place


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("box a 10 10 100 50: A\n", "no line gives the size"),
        (f"{SIZE}circle a 1 1 1 1\n", "line 2: no shape is written like that"),
        (f"{SIZE}box a 10 10 20 50: Long name\n", r"line 2: 'Long name' needs 85 x 21 pixels"),
        (f"{SIZE}box a 10 10 90 30: A | b\n", r"line 2: 'A | b' needs .* x 38 pixels"),
        (f"{TWO}arrow a -> d\n", "line 4: no box above is named 'd'"),
        (f"{TWO}arrow a.right -> b\n", "line 4: give both ends a side, or none"),
        (f"{TWO}box c 250 200 100 50: C\narrow a -> c\n", "line 5: the boxes don't face each other"),
        (f"{SIZE}box a 350 10 100 50: A\n", "'A' is not within the picture"),
        (f"{TWO}box c 60 10 100 50: C\n", "'A' overlaps 'C'"),
        (f"{TWO}arrow a -> b: to\ndashed a.right+4 -> b.left+4: to\n", "the line 'to' crosses 'to'"),
        (f"{TWO}arrow a -> b: a very long label of a line\n", "'A' overlaps 'a very long label of a line'"),
        (f"{TWO}box c 150 10 50 50: C\narrow a -> b\n", "the line '' crosses 'C'"),
    ],
)
def test_the_error_for_a_picture_that_cannot_be_drawn_names_the_mistake_in_its_description(
    text: str, words: str
) -> None:
    with pytest.raises(PictureError, match=words):
        read(text)


@pytest.mark.parametrize(("arrow", "tips"), [("a -> b", ["end"]), ("a <-> b", ["start", "end"])])
def test_an_arrow_in_a_picture_has_a_head_at_each_end_that_its_description_names(arrow: str, tips: list[str]) -> None:
    (line,) = drawn(f"{TWO}arrow {arrow}\n", "path[@class='line arrow']")
    assert [name for name in line.attrib if name.startswith("marker")] == [f"marker-{tip}" for tip in tips]


def test_texts_in_a_picture_are_escaped() -> None:
    picture = render(read(SIZE.replace("a title", "<a> & b") + "box a 10 10 100 50: <name>\n"))
    assert "<title>&lt;a&gt; &amp; b</title>" in picture
    assert "&lt;name&gt;" in picture


def test_a_picture_has_dark_colours_if_the_reader_prefers_a_dark_page() -> None:
    assert all("@media (prefers-color-scheme: dark)" in path.read_text() for path in FOLDER.glob("*.svg"))
