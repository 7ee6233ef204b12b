import { pythonMoto } from "../../../scripts/test-parts.ts";
import { freePort, onFreePorts } from "../free-port.ts";
import { TestProcess } from "../process.ts";

/** A server that speaks S3: `moto` of PyPI. Its objects are in its memory, and it takes any credentials. */
export interface S3Server {
  readonly url: string;
  readonly process: TestProcess;
  /** The keys in the bucket. */
  keys(): Promise<string[]>;
}

/** Starts the server with an empty bucket. */
export async function startS3(bucket: string): Promise<S3Server> {
  const { url, process: started } = await onFreePorts(async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const moto = new TestProcess("python3", ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port)], {
      env: { ...process.env, PYTHONPATH: pythonMoto(), PYTHONDONTWRITEBYTECODE: "1" },
    });
    await moto.until("the S3 server", async () => (await fetch(`${url}/moto-api/`)).ok);
    return { url, process: moto };
  });
  const made = await fetch(`${url}/${bucket}`, { method: "PUT" });
  if (!made.ok) throw new Error(`no bucket: ${made.status} ${await made.text()}`);
  return {
    ...{ url, process: started },
    async keys() {
      const text = await (await fetch(`${url}/${bucket}?list-type=2`)).text();
      return [...text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key!);
    },
  };
}
