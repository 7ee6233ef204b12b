/** Answers every request with one metrics page: thousands of "model servers" on the addresses of the loopback range. */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const page = readFileSync(join(import.meta.dirname, "..", "data", "vllm-metrics.txt"));
const server = createServer((_, response) => response.setHeader("content-type", "text/plain").end(page));
server.listen(Number(process.argv[2]), "0.0.0.0");
