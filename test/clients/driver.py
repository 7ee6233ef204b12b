"""
Makes the calls that the test writes to stdin, one JSON object a line, and answers each with one line on stdout. An
argument is the file of the only authority that the clients trust.
"""

import json
import ssl
import sys

import anthropic
import openai

TRANSPORTS = {"openai": openai.DefaultHttpx2Client, "anthropic": anthropic.DefaultHttpxClient}
# The helper that collects a stream has a method of its own in each API.
FINAL = ("get_final_completion", "get_final_message", "get_final_response")


def plain(value):
    return value.model_dump(mode="json", exclude_unset=True) if hasattr(value, "model_dump") else value


def raised(error):
    response = getattr(error, "response", None)
    return {
        "name": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
        "type": getattr(error, "type", None),
        "param": getattr(error, "param", None),
        "message": str(error),
        "requestId": getattr(error, "request_id", None),
        "body": getattr(error, "body", None),
        "headers": dict(response.headers) if response is not None else None,
    }


def streamed(call, stream):
    events = []
    try:
        for event in stream:
            events.append(plain(event))
            if len(events) == call.get("stopAfter"):
                stream.close()
                break
    except Exception as error:
        return {"events": events, "error": raised(error)}
    return {"events": events}


def perform(call):
    options = {"base_url": call["baseUrl"], "api_key": call["apiKey"], "max_retries": call.get("retries", 0)}
    kind = {"openai": openai.OpenAI, "anthropic": anthropic.Anthropic}[call["library"]]
    if len(sys.argv) > 1:
        options["http_client"] = TRANSPORTS[call["library"]](verify=ssl.create_default_context(cafile=sys.argv[1]))
    with kind(timeout=call["timeoutMs"] / 1000, **options) as client:
        *groups, method = call["method"].split(".")
        for group in groups:
            client = getattr(client, group)
        keywords = dict(call.get("params", {}))
        if "headers" in call:
            keywords["extra_headers"] = call["headers"]
        given = call.get("args", [])
        try:
            if call.get("helper"):
                with client.stream(*given, **keywords) as stream:
                    final = next(getattr(stream, name) for name in FINAL if hasattr(stream, name))
                    return {"value": plain(final())}
            result = getattr(client, method)(*given, **keywords)
            if keywords.get("stream"):
                return streamed(call, result)
            if call.get("list"):
                return {"value": [plain(item) for item in result]}
            return {"value": plain(result), "requestId": getattr(result, "_request_id", None)}
        except Exception as error:
            return {"error": raised(error)}


if __name__ == "__main__":
    for line in sys.stdin:
        call = json.loads(line)
        sys.stdout.write(json.dumps({"id": call["id"], "outcome": perform(call)}) + "\n")
        sys.stdout.flush()
