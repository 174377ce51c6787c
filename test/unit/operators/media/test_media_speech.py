import asyncio
import io
import re
import wave
from concurrent.futures import ThreadPoolExecutor

import pytest

from operad.operators.media import errors, speech
from operad.operators.media.errors import MediaError
from operad.operators.media.speech import speak, voice_for
from operad.runtime import MissingExtraError
from operad.runtime.values.pip import pip_install


def seconds(wav):
    with wave.open(io.BytesIO(wav)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 22050)
        return file.getnframes() / file.getframerate()


@pytest.mark.parametrize(
    "text",
    [
        "Figs are ripe when they droop.",
        "先下载安装包，再运行安装程序。",
        "索引があるデータベースです。",
        "Все смоквы уже созрели.",
        "42",
    ],
)
async def test_a_text_is_spoken(text):
    spoken = await speak(text)
    assert spoken.startswith(b"RIFF")
    assert 0.3 < seconds(spoken) < 10
    assert max(spoken[44:]) > 0


async def test_twice_the_text_takes_longer():
    assert seconds(await speak("Figs are ripe. " * 2)) > seconds(await speak("Figs are ripe."))


@pytest.mark.parametrize(
    ("text", "voice"),
    [
        ("Figs are ripe.", "en-us"),
        ("42 + 1", "en-us"),
        ("退款到账。", "cmn"),
        ("使用 OpenAI 的 API 生成文本，然后保存文件", "cmn"),
        ("The word for fig is 无花果, as you know very well by now.", "en-us"),
        ("データベースの索引", "ja"),
        ("안녕하세요", "ko"),
        ("Привет", "ru"),
        ("مرحبا", "ar"),
        ("नमस्ते", "hi"),
    ],
)
def test_the_voice_goes_by_the_script(text, voice):
    assert voice_for(text) == voice


@pytest.mark.parametrize("voice", ["en-gb", "de", "zh", "fr-fr", "en-us+f3"])
async def test_a_voice_may_be_asked_for(voice):
    assert seconds(await speak("Figs", voice)) > 0.2


@pytest.mark.parametrize("voice", ["nope", "", "../../../etc/passwd", "en-us+../x", "en-us+", "+f3", "a\0b"])
async def test_an_unknown_voice_is_an_error(voice):
    with pytest.raises(MediaError, match=r"text to speech: there is no voice .*; there are .*, among them en-us"):
        await speak("Figs", voice)


async def test_a_near_voice_is_suggested():
    with pytest.raises(MediaError, match=r"no voice 'en-uk' \(did you mean 'en-us'\?\)"):
        await speak("Figs", "en-uk")


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_text_is_an_error(text):
    with pytest.raises(MediaError, match="text to speech: the text is empty"):
        await speak(text)


@pytest.mark.parametrize("text", ["…", "🎉 🎉", "---", "。"])
async def test_a_text_without_words_is_an_error(text):
    with pytest.raises(MediaError, match="has no letter and no digit, so there is nothing to say"):
        await speak(text)


async def test_a_text_that_is_too_long_is_an_error():
    with pytest.raises(MediaError, match="the text has 10,001 characters; the maximum is 10,000"):
        await speak("x" * 10_001)


@pytest.mark.parametrize("text", ["figs\0dates", "figs \ud800", "<speak>figs</speak>", "[[figs]]"])
async def test_no_text_has_power(text):
    assert seconds(await speak(text)) > 0.2


async def test_one_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.setattr(speech, "_SECONDS", 0.001)
    with pytest.raises(MediaError, match=r"text to speech: took more than 0\.001 s and was stopped"):
        await speak("Figs")


def test_it_works_in_threads():
    with ThreadPoolExecutor(4) as pool:
        spoken = list(pool.map(lambda text: asyncio.run(speak(text)), ["Figs"] * 4))
    assert len({len(one) for one in spoken}) == 1


async def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=re.escape(f"espeakng_loader: {pip_install('media')}")):
        await speak("Figs")
