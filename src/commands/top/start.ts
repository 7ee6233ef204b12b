import { delay } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { Screen } from "../../base/process/screen.ts";
import type { EndpointsFeed } from "../../wires/admin/feed/endpoints.ts";
import type { FeedHello } from "../../wires/admin/feed/feed.ts";
import type { Overview } from "../../wires/admin/feed/overview.ts";
import type { QueuesFeed } from "../../wires/admin/feed/queues.ts";
import { type AdminAccess, askAdmin } from "../common/admin-client.ts";
import type { Output } from "../common/command.ts";
import type { Look } from "./look.ts";
import { pictureOf, summaryOf } from "./picture.ts";

/** Seconds that a picture describes. */
const SECONDS = 60;
/** Lines of a picture where the terminal does not say how many it has. */
const USUAL_ROWS = 40;

interface TopOptions {
  readonly access: AdminAccess;
  /** Milliseconds. */
  readonly interval: number;
  readonly once: boolean;
  readonly json: boolean;
  readonly output: Output;
}

/**
 * Prints pictures of a process until a signal, or one. It asks a process that stops answering again, and
 * only a first look without an answer ends it.
 * @throws SluiceError FLAG_VALUE, ADMIN_...
 */
export async function watchProcess({ access, interval, once, json, output }: TopOptions): Promise<void> {
  const over = new AbortController();
  const end = (): void => over.abort();
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
  const isTerminal = process.stdout.isTTY === true && !once && !json;
  const screen = new Screen({ write: (text) => output.out(text), isTerminal });
  const rows = (): number => (once ? Number.POSITIVE_INFINITY : (process.stdout.rows ?? USUAL_ROWS));
  try {
    let last = await lookAt(access);
    for (;;) {
      if (json) output.out(`${JSON.stringify(shortOf(last))}\n`);
      else if (once) output.out(`${pictureOf(last, rows()).join("\n")}\n`);
      else screen.draw(pictureOf(last, rows()), summaryOf(last));
      if (once) return;
      await delay(realClock, interval, over.signal).catch(() => undefined);
      for (let since = realClock.wall(); !over.signal.aborted; ) {
        try {
          last = await lookAt(access);
          break;
        } catch (error) {
          const gone = `no answer since ${new Date(since).toISOString().slice(11, 19)} UTC: ${messageOf(error)}`;
          if (json) output.err(`${gone}\n`);
          else screen.draw([gone, ...pictureOf(last, rows() - 1)], gone);
          await delay(realClock, interval, over.signal).catch(() => undefined);
        }
      }
      if (over.signal.aborted) return;
    }
  } finally {
    process.off("SIGINT", end);
    process.off("SIGTERM", end);
  }
}

async function lookAt(access: AdminAccess): Promise<Look> {
  const get = async <T>(path: string): Promise<T> => {
    const { status, value } = await askAdmin(access, `/debug/feed${path}`);
    if (status === 200) return value as T;
    throw new SluiceError("ADMIN_FOREIGN", "this process runs a release without sluice top; update the process");
  };
  const hello = await get<FeedHello>("");
  const [overview, queues, endpoints] = await Promise.all([
    get<Overview>(`/overview?seconds=${SECONDS}`),
    get<QueuesFeed>("/queues"),
    hello.topics.includes("endpoints") ? get<EndpointsFeed>("/endpoints") : null,
  ]);
  return { hello, overview, endpoints, queues };
}

/** A look without the columns of each second. */
function shortOf({ hello, overview, endpoints, queues }: Look): object {
  const now = Object.fromEntries(
    Object.entries(overview.figures).map(([name, values]) => [name, (values as readonly unknown[]).at(-1) ?? null]),
  );
  return { hello, now, minute: overview.windows.minute, totals: overview.totals, endpoints, queues };
}
