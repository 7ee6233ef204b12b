"""
Makes the calls that the test writes to stdin, all at the same time, and answers each with one line on stdout when it ends:
calls with `async` by the async clients, the others by the usual clients in threads. The argument is the file of the only
authority that the clients trust.
"""

import asyncio
import concurrent.futures
import json
import ssl
import sys

import anthropic
import openai

import driver
from driver import plain, raised

KINDS = {
    "openai": (openai.AsyncOpenAI, openai.DefaultAsyncHttpx2Client),
    "anthropic": (anthropic.AsyncAnthropic, anthropic.DefaultAsyncHttpxClient),
}
# One for each library: the calls of an async application share a client, and its connections.
clients = {}
# At least as many as the calls that a test makes at the same time.
THREADS = 20


def client_of(call):
    if call["library"] not in clients:
        kind, transport = KINDS[call["library"]]
        context = ssl.create_default_context(cafile=sys.argv[1])
        options = {"base_url": call["baseUrl"], "api_key": call["apiKey"], "max_retries": 0}
        clients[call["library"]] = kind(http_client=transport(verify=context), **options)
    return clients[call["library"]]


async def streamed(call, opening):
    """Cancels the task of the reader after `stopAfter` events: it waits for the next one then."""
    events = []
    enough = asyncio.Event()

    async def read():
        async for event in await opening:
            events.append(plain(event))
            if len(events) == call.get("stopAfter"):
                enough.set()

    reader = asyncio.create_task(read())
    if "stopAfter" in call:
        leaver = asyncio.create_task(enough.wait())
        await asyncio.wait({reader, leaver}, return_when=asyncio.FIRST_COMPLETED)
        leaver.cancel()
        reader.cancel()
    try:
        await reader
    except asyncio.CancelledError:
        pass
    except Exception as error:
        return {"events": events, "error": raised(error)}
    return {"events": events}


async def perform(call):
    target = client_of(call)
    *groups, method = call["method"].split(".")
    for group in groups:
        target = getattr(target, group)
    keywords = {**call.get("params", {}), "extra_headers": call["headers"], "timeout": call["timeoutMs"] / 1000}
    opening = getattr(target, method)(**keywords)
    if keywords.get("stream"):
        return await streamed(call, opening)
    try:
        return {"value": plain(await opening)}
    except Exception as error:
        return {"error": raised(error)}


async def answer(call):
    outcome = await (perform(call) if call.get("async") else asyncio.to_thread(driver.perform, call))
    sys.stdout.write(json.dumps({"id": call["id"], "outcome": outcome}) + "\n")
    sys.stdout.flush()


async def main():
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(THREADS))
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    running = set()
    while line := await lines.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


asyncio.run(main())
