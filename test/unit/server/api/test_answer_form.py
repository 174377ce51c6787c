"""Answers in the form that a client of the OpenAI protocols asks for."""

import pytest
from openai import APIError, InternalServerError
from pydantic import BaseModel, Field
from serving import HELLO, Code, offered, order, served, words

from operad.runtime.testing import ScriptedReasoner

ROME = '{"name": "Rome", "people": 7}'


class City(BaseModel):
    name: str
    people: int


class Village(BaseModel):
    name: str
    people: int = Field(le=5)


def city():
    return offered(words(output_schema="{name: string, people: integer}"), reasoner=ScriptedReasoner(ROME))


async def test_an_answer_is_parsed_by_the_type_that_the_client_asks_for():
    async with served(city()) as here, here.openai() as client:
        chat = await client.chat.completions.parse(model="Expert", messages=[HELLO], response_format=City)
        response = await client.responses.parse(model="Expert", input="Hello", text_format=City)
        async with client.chat.completions.stream(model="Expert", messages=[HELLO], response_format=City) as stream:
            streamed = await stream.get_final_completion()
    parsed = [chat.choices[0].message.parsed, response.output_parsed, streamed.choices[0].message.parsed]
    assert parsed == [City(name="Rome", people=7)] * 3


async def test_an_answer_that_does_not_fit_is_an_error_that_names_the_run_and_the_fault():
    async with served(city()) as here, here.openai(max_retries=0) as client:
        with pytest.raises(InternalServerError, match="people") as chat:
            await client.chat.completions.parse(model="Expert", messages=[HELLO], response_format=Village)
        with pytest.raises(InternalServerError, match="people"):
            await client.responses.parse(model="Expert", input="Hello", text_format=Village)
        with pytest.raises(APIError, match="people"):
            async with client.chat.completions.stream(
                model="Expert", messages=[HELLO], response_format=Village
            ) as stream:
                await stream.get_final_completion()
        runs = (await here.http.get("/runs")).json()["runs"]
    assert chat.value.status_code == 502
    assert [run["state"] for run in runs] == ["finished"] * 3
    assert runs[2]["id"] in chat.value.message


@pytest.mark.parametrize("said", ["Rome", f"It is {ROME}", "[]", "NaN"])
async def test_an_answer_that_is_no_json_object_is_an_error(said):
    async def work(job):
        return said

    async with served(offered(Code(work))) as here, here.openai(max_retries=0) as client:
        with pytest.raises(InternalServerError):
            await client.chat.completions.create(
                model="Expert", messages=[HELLO], response_format={"type": "json_object"}
            )


async def test_a_question_is_asked_in_words():
    async with served(offered(Code(order))) as here, here.openai() as client:
        asked = await client.chat.completions.create(
            model="Expert", messages=[HELLO], response_format={"type": "json_object"}
        )
    assert "Order Hello?" in asked.choices[0].message.content
