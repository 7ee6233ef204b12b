"""Renders chats by Jinja2 and tokenizes by the Rust library, as Transformers does: JSON in, a list of results out."""

import json
import sys

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def content_of(content, parts):
    """A text as a template wants it: one text, or a list of parts."""
    if content is None:
        return [] if parts else ""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if parts else content
    return content if parts else "\n".join(part["text"] for part in content)


def main():
    given = json.load(sys.stdin)
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    tokenizer = Tokenizer.from_file(given["folder"] + "/tokenizer.json")
    with open(given["folder"] + "/tokenizer_config.json", encoding="utf-8") as file:
        config = json.load(file)
    specials = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in config.items()
        if name.endswith("_token") and (isinstance(value, str) or isinstance(value, dict))
    }
    template = env.from_string(config["chat_template"])
    results = []
    for case in given["cases"]:
        try:
            if "text" in case:
                text = case["text"]
            else:
                messages = [dict(message) for message in case["messages"]]
                for message in messages:
                    parts = given["parts"] and message["role"] != "tool"
                    message["content"] = content_of(message["content"], parts)
                kwargs = {"add_generation_prompt": True, "documents": None, "tools": case.get("tools"), **case["kwargs"]}
                text = template.render(messages=messages, **specials, **kwargs)
            results.append(tokenizer.encode(text, add_special_tokens=case["special"]).ids)
        except Exception as error:  # the template refuses it
            results.append(type(error).__name__)
    json.dump(results, sys.stdout)


main()
