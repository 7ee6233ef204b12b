import { ExtProcClient, type ExtProcStream } from "./extproc-client.ts";
import { GrpcClient } from "./grpc-client.ts";
import { sluice, type TestProcess } from "./process.ts";
import { portOf } from "./stack.ts";

/** `sluice epp` with every flag in the test's hands. */
export interface BareEpp {
  readonly process: TestProcess;
  readonly port: number;
  readonly healthPort: number;
  readonly adminUrl: string;
}

/** Starts `sluice epp` on free ports; nothing else is preset. */
export async function startBareEpp(endpoints: string, args: readonly string[] = []): Promise<BareEpp> {
  const process = sluice(
    ...["epp", "--endpoints", endpoints, "--bind-address", "127.0.0.1"],
    ...["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0", ...args],
  );
  const port = portOf(await process.listening("ext-proc"));
  const healthPort = portOf(await process.listening("health"));
  return { process, port, healthPort, adminUrl: `http://${await process.listening("admin")}` };
}

/** What a health check answers: the serving status, or the gRPC status it failed with. */
export async function health(
  port: number,
  service: string,
  method = "Check",
): Promise<{ serving: number | undefined; grpc: number | undefined }> {
  const client = await GrpcClient.connect(port);
  try {
    const name = Buffer.from(service);
    const request = name.length === 0 ? name : Buffer.concat([Buffer.of(0x0a, name.length), name]);
    const { reply, end } = await client.unary(`/grpc.health.v1.Health/${method}`, request);
    return { serving: reply?.[1], grpc: end.status };
  } finally {
    client.close();
  }
}

/** Sends a whole chat request on a stream of its own and answers it as a model server would. */
export async function exchange(client: ExtProcClient, answer = "{}"): Promise<string> {
  const stream = client.open();
  const destination = await route(stream);
  await finish(stream, answer);
  return destination;
}

/** Routes a chat request; returns the destination, throws with what came instead. */
export async function route(stream: ExtProcStream): Promise<string> {
  stream.requestHeaders([
    [":method", "POST"],
    [":path", "/v1/chat/completions"],
  ]);
  stream.requestBody('{"model":"sim","messages":[{"role":"user","content":"hello"}]}', true);
  const headers = await stream.next();
  if (headers?.requestHeaders === undefined) throw new Error(`no route but ${JSON.stringify(headers)}`);
  await stream.next();
  const { header } = headers.requestHeaders.response.headerMutation.setHeaders[0];
  return Buffer.from(header.rawValue).toString();
}

/** The response phase of a routed stream, to its end. */
export async function finish(stream: ExtProcStream, answer = "{}"): Promise<void> {
  stream.responseHeaders([
    [":status", "200"],
    ["content-type", "application/json"],
  ]);
  if ((await stream.next())?.responseHeaders === undefined) throw new Error("response headers not answered");
  stream.responseBody(answer, true);
  if ((await stream.next())?.responseBody === undefined) throw new Error("response body not answered");
  stream.reset();
}

export { ExtProcClient };
