/**
 * An application that has time: it puts questions on a queue of the Async Processor, and prints each answer when it comes.
 *
 *   npm install sluice
 *   node main.js queue.db requests              # the path and the queue_name of the dispatcher's dispatch.yaml
 *   REDIS_URL=redis://localhost:6379 node main.js
 */
import { createRequester } from "sluice/producer";

const [path = "queue.db", requestQueueName] = process.argv.slice(2);
const url = process.env.REDIS_URL;
const requester = await createRequester({
  ...(url ? { redis: { url } } : { sqlite: { path } }),
  requestQueueName: requestQueueName ?? (url ? "request-sortedset" : "requests"),
});

const cities = ["Lisbon", "Nairobi", "Osaka", "Quito"];
// An hour from now; what has no answer by then ends with DEADLINE_EXCEEDED.
const deadline = Math.floor(Date.now() / 1000) + 3600;

await Promise.all(
  cities.map(async (city) => {
    const result = await requester.request(
      { model: "my-model", prompt: `Name one sight of ${city}.`, max_tokens: 30 },
      { deadline, metadata: { application: "example" } },
    );
    const answer = Buffer.from(result.payload).toString();
    if (result.statusCode === 200) console.log(`${city}: ${answer}`);
    else console.error(`${city}: ${result.errorCode || `status ${result.statusCode}`}: ${answer}`);
  }),
);
await requester.close();
