"""Local files in place of URLs."""

import pytest
from unified_llm.provider_utils.media import guess_media_type, load_media, normalize_media_type
from unified_llm.spec.errors import ConfigurationError


def test_local_files_are_read(tmp_path, monkeypatch):
    (tmp_path / "shot.PNG").write_bytes(b"png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (f"{tmp_path}/shot.PNG", "./shot.PNG", "~/shot.PNG"):
        assert load_media(path) == (b"png", "image/png")


@pytest.mark.parametrize("url", ["https://x.example/a.png", "data:image/png;base64,AA==", "shot.png", "", "gs://b/a"])
def test_everything_else_is_no_local_file(url):
    assert load_media(url) is None


@pytest.mark.parametrize("name", ["missing.png", ""])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        load_media(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.jpg", "image/jpeg"),
        ("a.webp", "image/webp"),
        ("a.heic", "image/heic"),
        ("a.pdf", "application/pdf"),
        ("a.md", "text/markdown"),
        ("a.wav", "audio/wav"),
        ("a.unheard-of", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_media_types_follow_from_extensions(name, media_type):
    assert guess_media_type(name) == media_type


def test_media_types_are_normalised():
    assert normalize_media_type("Image/JPG; q=1") == "image/jpeg"
