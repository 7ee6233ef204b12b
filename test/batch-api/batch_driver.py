"""
Runs a batch with the official client: uploads the input, waits for the end, fetches the answers, cancels another batch, and removes
the files. Arguments: base URL, key, path of the input. Prints what it saw as JSON.
"""

import json
import sys
import time

import openai

base_url, key, path = sys.argv[1:4]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=openai.DefaultHttpx2Client(trust_env=False))


def ended(batch_id):
    while True:
        batch = client.batches.retrieve(batch_id)
        if batch.status in ("failed", "completed", "expired", "cancelled"):
            return batch
        time.sleep(0.05)


seen = {}
with open(path, "rb") as content:
    uploaded = client.files.create(file=content, purpose="batch")
seen["file"] = [uploaded.object, uploaded.purpose, uploaded.filename, uploaded.bytes]
batch = client.batches.create(
    input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"job": "7"}
)
done = ended(batch.id)
seen["batch"] = [done.status, done.request_counts.model_dump(), done.metadata, done.usage.total_tokens > 0]
answers = [json.loads(line) for line in client.files.content(done.output_file_id).text.splitlines()]
seen["answers"] = sorted(answer["custom_id"] for answer in answers)
seen["text"] = all(answer["response"]["body"]["choices"][0]["message"]["content"] for answer in answers)
seen["listed"] = [one.id == batch.id for one in client.batches.list(limit=1)][0]
try:
    client.batches.cancel(batch.id)
except openai.BadRequestError as error:
    seen["cancel"] = [error.code, error.param]
seen["files"] = sum(1 for _ in client.files.list(limit=1))
seen["deleted"] = [client.files.delete(one).deleted for one in (uploaded.id, done.output_file_id)]
try:
    client.files.retrieve(uploaded.id)
except openai.NotFoundError as error:
    seen["gone"] = error.code
print(json.dumps(seen))
