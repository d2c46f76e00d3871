"""Local files in place of URLs, and how large media may be."""

import os

import httpx
import pytest
from unified_llm import (
    AnthropicAdapter,
    ConfigurationError,
    ContentKind,
    ContentPart,
    GeminiAdapter,
    ImageData,
    InvalidRequestError,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    Request,
    ServerError,
)
from unified_llm.provider_utils.media import MAX_FILE_BYTES, guess_media_type, load_media, normalize_media_type

ADAPTERS = {
    "anthropic": lambda client: AnthropicAdapter(api_key="key", http_client=client),
    "openai": lambda client: OpenAIAdapter(api_key="key", http_client=client),
    "openai_compatible": lambda client: OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=client),
    "gemini": lambda client: GeminiAdapter(api_key="key", http_client=client),
}


def test_local_files_are_read(tmp_path, monkeypatch):
    (tmp_path / "shot.PNG").write_bytes(b"png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (f"{tmp_path}/shot.PNG", "./shot.PNG", "~/shot.PNG"):
        assert load_media(path) == (b"png", "image/png")


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.jpg", b"\x89PNG\r\n\x1a\n...", "image/png"),
        ("a.png", b"\xff\xd8\xff\xe0...", "image/jpeg"),
        ("a.png", b"GIF89a...", "image/gif"),
        ("a", b"RIFF\n\r\0\0WEBPVP8 ", "image/webp"),
        ("a.jpg", b"\0\0\0\x18ftypheic...", "image/heic"),
        ("a.txt", b"%PDF-1.7...", "application/pdf"),
        ("a.mp3", b"RIFF....WAVEfmt ", "audio/wav"),
        ("a.gif", b"nothing known", "image/gif"),
        ("a.jpg", b"\x89PN", "image/jpeg"),
        ("a.md", b"About \x89PNG\r\n\x1a\n", "text/markdown"),
    ],
)
def test_a_name_that_lies_about_the_type_is_not_believed(name, content, media_type, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert load_media(f"{tmp_path}/{name}") == (content, media_type)


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example/a.png",
        "https://x.example/./a.png",
        "data:image/png;base64,AA==",
        "gs://b/a",
        "file:///etc/hostname",
        "shot.png",
        "../shot.png",
        ".hidden.png",
        " /shot.png",
        "",
    ],
)
def test_everything_else_is_no_local_file(url, tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    for name in ("shot.png", "inner/shot.png", ".hidden.png", "inner/.hidden.png"):
        (tmp_path / name).write_bytes(b"png")
    monkeypatch.chdir(tmp_path / "inner")
    assert load_media(url) is None


@pytest.mark.parametrize("name", ["missing.png", ""])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        load_media(f"{tmp_path}/{name}")


@pytest.mark.parametrize("url", ["/dev/zero", "~no-such-user-here/a.png", "/a\0b.png", "/" + "x" * 5000])
def test_what_is_no_file_is_refused_by_name(url):
    with pytest.raises(ConfigurationError, match="can't read the file"):
        load_media(url)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ConfigurationError, match=r"pipe\.png: it is a directory or a device"):
        load_media(str(tmp_path / "pipe.png"))


def test_a_file_beyond_all_measure_is_not_read(tmp_path):
    path = tmp_path / "film.png"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigurationError, match=r"film\.png: it has 1,099,511,627,776 bytes"):
        load_media(str(path))


LIMITS = {
    "anthropic": ("claude-sonnet-4-5", 3_932_160),
    "openai": ("gpt-5.2", 20_971_520),
    "openai_compatible": ("some-model", 20_971_520),
    "gemini": ("gemini-2.5-flash", 104_857_600),
}


@pytest.mark.parametrize("provider", LIMITS)
async def test_an_image_that_a_provider_will_not_take_is_not_sent(provider, tmp_path):
    model, limit = LIMITS[provider]
    sent = []

    def answer(request):
        sent.append(len(request.content))
        return httpx.Response(500)

    path = tmp_path / "shot.png"
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        adapter = ADAPTERS[provider](client)

        async def send(**fields):
            part = ContentPart(kind=ContentKind.IMAGE, image=ImageData(**fields))
            await adapter.complete(Request(model=model, messages=[Message.user([part])]))

        if limit < MAX_FILE_BYTES:
            with path.open("wb") as file:
                file.truncate(limit + 1)
            with pytest.raises(InvalidRequestError, match=rf"shot\.png has {limit + 1:,} bytes.* at most {limit:,}"):
                await send(url=str(path))
        with pytest.raises(InvalidRequestError, match=f"image given has {limit + 1:,} bytes"):
            await send(data=bytes(limit + 1))
        (tmp_path / "drawing.svg").write_text("<svg/>")
        with pytest.raises(InvalidRequestError, match=r"image/svg\+xml"):
            await send(url=str(tmp_path / "drawing.svg"))
        assert sent == []
        if limit < 5_000_000:  # more takes its time
            with pytest.raises(ServerError):
                await send(data=bytes(limit))
            assert len(sent) == 1


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
